-- +goose Up

-- A page of the audit log is read from an index in order of time. A partial index is used by
-- queries that repeat its condition.
DROP INDEX audit_by_project;
DROP INDEX audit_by_broker;
DROP INDEX audit_by_actor;
DROP INDEX audit_by_object;
DROP INDEX audit_by_operation;
DROP INDEX audit_by_address;
DROP INDEX audit_by_request;
DROP INDEX audit_by_code;
DROP INDEX audit_by_outcome;
CREATE INDEX audit_by_project ON audit (project_id, time) WHERE project_id <> '';
CREATE INDEX audit_by_broker ON audit (broker_id, time) WHERE broker_id <> '';
CREATE INDEX audit_by_actor ON audit (actor_id, time) WHERE actor_id <> '';
CREATE INDEX audit_by_kind ON audit (actor_kind, time) WHERE actor_kind <> 'user';
CREATE INDEX audit_by_object ON audit (object, time) WHERE object <> '';
CREATE INDEX audit_by_operation ON audit (operation, time);
CREATE INDEX audit_by_address ON audit (address, time) WHERE address <> '';
CREATE INDEX audit_by_request ON audit (request_id) WHERE request_id <> '';
CREATE INDEX audit_by_code ON audit (code, time) WHERE code <> '';
CREATE INDEX audit_by_outcome ON audit (outcome, time) WHERE outcome <> 'done';
