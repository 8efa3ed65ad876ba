create table item (id bigint primary key, name varchar(40) not null, stock integer not null);
insert into item select number, 'item ' || number, 1000000000 from generate_series(1, 1000) as numbers (number);
