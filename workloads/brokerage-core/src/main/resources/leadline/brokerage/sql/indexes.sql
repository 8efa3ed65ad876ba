-- Made after the data is loaded.

CREATE INDEX instrument_by_change ON instrument (change_bp, symbol);
CREATE INDEX instrument_by_volume ON instrument (volume, symbol);
CREATE INDEX order_by_account ON trade_order (account_id, id);
CREATE INDEX holding_by_account ON holding (account_id, order_id);
