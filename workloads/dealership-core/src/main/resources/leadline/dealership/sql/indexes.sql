-- Made after the data is loaded.

CREATE INDEX order_by_dealer ON sales_order (dealer_id, status, id);
CREATE INDEX work_by_status ON work_order (kind, status, id);
CREATE INDEX purchase_by_status ON purchase_order (status, sent_at);
CREATE INDEX purchase_by_work ON purchase_order (work_order_id, id);
CREATE INDEX back_order_by_model ON back_order (model_id, order_id);
