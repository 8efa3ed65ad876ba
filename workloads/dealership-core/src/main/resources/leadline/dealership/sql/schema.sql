-- Written for PostgreSQL and MariaDB; @IDENTITY@ and @TIMESTAMP@ are filled in by Dialect.
-- Statements end with a semicolon at the end of a line.

CREATE TABLE generation (
  id INTEGER PRIMARY KEY,
  version INTEGER NOT NULL,
  units INTEGER NOT NULL,
  seed BIGINT NOT NULL,
  dealers BIGINT NOT NULL,
  models BIGINT NOT NULL,
  parts BIGINT NOT NULL
);

CREATE TABLE dealer (
  id BIGINT PRIMARY KEY,
  name VARCHAR(40) NOT NULL UNIQUE,
  password_hash VARCHAR(120) NOT NULL,
  credit_limit BIGINT NOT NULL,
  opening_balance BIGINT NOT NULL,
  balance BIGINT NOT NULL,
  login_count BIGINT NOT NULL,
  last_login_at @TIMESTAMP@
);

CREATE TABLE supplier (
  id BIGINT PRIMARY KEY,
  name VARCHAR(60) NOT NULL
);

CREATE TABLE model (
  id VARCHAR(10) PRIMARY KEY,
  name VARCHAR(60) NOT NULL,
  description VARCHAR(200) NOT NULL,
  price BIGINT NOT NULL,
  supplier_id BIGINT NOT NULL REFERENCES supplier (id)
);

CREATE TABLE part (
  id VARCHAR(10) PRIMARY KEY,
  name VARCHAR(60) NOT NULL,
  cost BIGINT NOT NULL,
  lead_days INTEGER NOT NULL
);

CREATE TABLE bill_of_materials (
  model_id VARCHAR(10) NOT NULL REFERENCES model (id),
  part_id VARCHAR(10) NOT NULL REFERENCES part (id),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  PRIMARY KEY (model_id, part_id)
);

-- Finished vehicles: those anybody can have, and those reserved for a large order that is not complete yet.
CREATE TABLE finished_stock (
  model_id VARCHAR(10) PRIMARY KEY REFERENCES model (id),
  quantity INTEGER NOT NULL,
  reserved INTEGER NOT NULL,
  opening INTEGER NOT NULL
);

CREATE TABLE part_stock (
  part_id VARCHAR(10) PRIMARY KEY REFERENCES part (id),
  on_hand INTEGER NOT NULL,
  on_order INTEGER NOT NULL,
  opening INTEGER NOT NULL
);

CREATE TABLE dealer_stock (
  dealer_id BIGINT NOT NULL REFERENCES dealer (id),
  model_id VARCHAR(10) NOT NULL REFERENCES model (id),
  quantity INTEGER NOT NULL,
  opening INTEGER NOT NULL,
  PRIMARY KEY (dealer_id, model_id)
);

-- open_work: work orders of a large order that are not completed.
CREATE TABLE sales_order (
  id @IDENTITY@,
  dealer_id BIGINT NOT NULL REFERENCES dealer (id),
  kind VARCHAR(5) NOT NULL,
  large BOOLEAN NOT NULL,
  status VARCHAR(9) NOT NULL,
  total BIGINT NOT NULL,
  open_work INTEGER NOT NULL,
  command_id VARCHAR(64),
  created_at @TIMESTAMP@ NOT NULL,
  closed_at @TIMESTAMP@,
  UNIQUE (dealer_id, command_id)
);

CREATE TABLE order_line (
  order_id BIGINT NOT NULL REFERENCES sales_order (id),
  line INTEGER NOT NULL,
  model_id VARCHAR(10) NOT NULL REFERENCES model (id),
  quantity INTEGER NOT NULL,
  price BIGINT NOT NULL,
  PRIMARY KEY (order_id, line)
);

-- The models of small orders that wait for production.
CREATE TABLE back_order (
  model_id VARCHAR(10) NOT NULL REFERENCES model (id),
  order_id BIGINT NOT NULL REFERENCES sales_order (id),
  PRIMARY KEY (order_id, model_id)
);

CREATE TABLE ledger_entry (
  order_id BIGINT NOT NULL REFERENCES sales_order (id),
  reason VARCHAR(8) NOT NULL,
  book VARCHAR(7) NOT NULL,
  dealer_id BIGINT NOT NULL REFERENCES dealer (id),
  amount BIGINT NOT NULL,
  PRIMARY KEY (order_id, reason, book)
);

-- advances: calls, also those that found parts missing and left the stage.
CREATE TABLE work_order (
  id @IDENTITY@,
  kind VARCHAR(7) NOT NULL,
  sales_order_id BIGINT REFERENCES sales_order (id),
  line INTEGER,
  model_id VARCHAR(10) NOT NULL REFERENCES model (id),
  quantity INTEGER NOT NULL,
  stage INTEGER NOT NULL,
  status VARCHAR(9) NOT NULL,
  completed_quantity INTEGER NOT NULL,
  advances INTEGER NOT NULL,
  command_id VARCHAR(64) UNIQUE,
  created_at @TIMESTAMP@ NOT NULL,
  closed_at @TIMESTAMP@,
  UNIQUE (sales_order_id, line)
);

CREATE TABLE part_use (
  work_order_id BIGINT NOT NULL REFERENCES work_order (id),
  part_id VARCHAR(10) NOT NULL REFERENCES part (id),
  quantity INTEGER NOT NULL,
  returned INTEGER NOT NULL,
  PRIMARY KEY (work_order_id, part_id)
);

-- cause: MISSING when an advance found too few parts, REQUESTED when somebody asked for them.
CREATE TABLE purchase_order (
  id @IDENTITY@,
  supplier_id BIGINT NOT NULL REFERENCES supplier (id),
  work_order_id BIGINT NOT NULL REFERENCES work_order (id),
  cause VARCHAR(9) NOT NULL,
  status VARCHAR(9) NOT NULL,
  sent_at @TIMESTAMP@ NOT NULL,
  delivered_at @TIMESTAMP@
);

CREATE TABLE purchase_line (
  purchase_order_id BIGINT NOT NULL REFERENCES purchase_order (id),
  part_id VARCHAR(10) NOT NULL REFERENCES part (id),
  quantity INTEGER NOT NULL,
  delivered INTEGER NOT NULL,
  PRIMARY KEY (purchase_order_id, part_id)
);

-- The first delivery of a purchase order, and how often it came again.
CREATE TABLE delivery (
  purchase_order_id BIGINT PRIMARY KEY REFERENCES purchase_order (id),
  received_at @TIMESTAMP@ NOT NULL,
  repeated INTEGER NOT NULL
);
