-- Written for PostgreSQL and MariaDB; @IDENTITY@ and @TIMESTAMP@ are filled in by Schema.
-- Statements end with a semicolon at the end of a line.

CREATE TABLE generation (
  id INTEGER PRIMARY KEY,
  version INTEGER NOT NULL,
  units INTEGER NOT NULL,
  seed BIGINT NOT NULL,
  accounts BIGINT NOT NULL,
  instruments BIGINT NOT NULL,
  holdings_per_account INTEGER NOT NULL
);

CREATE TABLE account (
  id @IDENTITY@,
  user_name VARCHAR(40) NOT NULL UNIQUE,
  password_hash VARCHAR(120) NOT NULL,
  opening_balance BIGINT NOT NULL,
  balance BIGINT NOT NULL CHECK (balance >= 0),
  login_count BIGINT NOT NULL,
  last_login_at @TIMESTAMP@,
  created_at @TIMESTAMP@ NOT NULL
);

CREATE TABLE account_profile (
  account_id BIGINT PRIMARY KEY REFERENCES account (id),
  full_name VARCHAR(100) NOT NULL,
  address VARCHAR(200) NOT NULL,
  email VARCHAR(100) NOT NULL,
  card VARCHAR(30) NOT NULL,
  update_count BIGINT NOT NULL
);

CREATE TABLE instrument (
  symbol VARCHAR(10) PRIMARY KEY,
  company VARCHAR(60) NOT NULL,
  open_price BIGINT NOT NULL,
  price BIGINT NOT NULL,
  low BIGINT NOT NULL,
  high BIGINT NOT NULL,
  change_bp INTEGER NOT NULL,
  volume BIGINT NOT NULL,
  trade_count BIGINT NOT NULL
);

CREATE TABLE trade_order (
  id @IDENTITY@,
  account_id BIGINT NOT NULL REFERENCES account (id),
  symbol VARCHAR(10) NOT NULL REFERENCES instrument (symbol),
  side VARCHAR(4) NOT NULL,
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  price BIGINT NOT NULL,
  fee BIGINT NOT NULL,
  quote_number BIGINT NOT NULL,
  trade_number BIGINT NOT NULL,
  status VARCHAR(10) NOT NULL,
  opened_at @TIMESTAMP@ NOT NULL,
  completed_at @TIMESTAMP@,
  command_id VARCHAR(64),
  closes_order_id BIGINT UNIQUE REFERENCES trade_order (id),
  UNIQUE (account_id, command_id)
);

CREATE TABLE holding (
  order_id BIGINT PRIMARY KEY REFERENCES trade_order (id),
  account_id BIGINT NOT NULL REFERENCES account (id),
  symbol VARCHAR(10) NOT NULL REFERENCES instrument (symbol),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  purchase_price BIGINT NOT NULL
);

CREATE TABLE ledger_entry (
  order_id BIGINT NOT NULL REFERENCES trade_order (id),
  book VARCHAR(10) NOT NULL,
  account_id BIGINT NOT NULL REFERENCES account (id),
  amount BIGINT NOT NULL,
  PRIMARY KEY (order_id, book)
);

CREATE TABLE price_point (
  symbol VARCHAR(10) NOT NULL REFERENCES instrument (symbol),
  trade_number BIGINT NOT NULL,
  price BIGINT NOT NULL,
  PRIMARY KEY (symbol, trade_number)
);

-- What became of orders that came through the queue; empty where orders are filled at once.
CREATE TABLE queued_order (
  account_id BIGINT NOT NULL REFERENCES account (id),
  command_id VARCHAR(64) NOT NULL,
  side VARCHAR(4) NOT NULL,
  outcome VARCHAR(10) NOT NULL,
  PRIMARY KEY (account_id, command_id)
);
