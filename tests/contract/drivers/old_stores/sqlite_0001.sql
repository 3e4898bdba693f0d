-- A store that version 0.1's SQLite driver wrote (schema 0001), as `.dump` shows it: one run half-way,
-- whose process was killed; one with rows of every kind; an ended and a deleted one. Never changed.
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE commits (
	seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	tenant_id TEXT DEFAULT '' NOT NULL, 
	run_id TEXT DEFAULT '' NOT NULL, 
	version BIGINT DEFAULT '0' NOT NULL, 
	commit_id TEXT DEFAULT '' NOT NULL, 
	committed_us BIGINT DEFAULT '0' NOT NULL, 
	changed TEXT, 
	xid BIGINT DEFAULT 0 NOT NULL, 
	UNIQUE (tenant_id, run_id, version)
);
INSERT INTO "commits" VALUES(1,'default','half-way',1,'303fbe36-08f8-4dfb-9548-6a0fce551b77',1700000100441106,'{"executions":[["","plan:1#1"]]}',0);
INSERT INTO "commits" VALUES(2,'default','half-way',2,'d8499f3a-5e0a-4cf1-a74e-f184931a77f9',1700000100497728,'{"executions":[["","plan:1#1"]]}',0);
INSERT INTO "commits" VALUES(3,'default','half-way',3,'ad74860e-c757-451e-91a4-258cafa7cb06',1700000100518070,'{"plan":1,"tasks":["a","b","sum"],"executions":[["","plan:1#1"],["a","task:a#1"],["b","task:b#1"]]}',0);
INSERT INTO "commits" VALUES(4,'default','half-way',4,'1a92d015-0615-46ad-a3c1-9651f6f5945a',1700000100549641,'{"tasks":["a"],"executions":[["a","task:a#1"]]}',0);
INSERT INTO "commits" VALUES(5,'acme','run-1',1,'run-1@1',1700000101047614,'{"plan":1,"tasks":["a","b"],"executions":[["a","task:a#1"]]}',0);
INSERT INTO "commits" VALUES(6,'acme','run-1',2,'run-1@2',1700000101047614,'{"tasks":["b"],"executions":[["b","task:b#1"]],"inputs":["q1","q2"],"request":true}',0);
INSERT INTO "commits" VALUES(8,'acme','ended',1,'ended@1',1700000101118313,'{}',0);
INSERT INTO "commits" VALUES(9,'acme','ended',2,'ended@2',1700000101118313,'{}',0);
CREATE TABLE events (
	tenant_id TEXT DEFAULT '' NOT NULL, 
	run_id TEXT DEFAULT '' NOT NULL, 
	number BIGINT DEFAULT '0' NOT NULL, 
	version BIGINT DEFAULT '0' NOT NULL, 
	type TEXT DEFAULT '' NOT NULL, 
	time_us BIGINT DEFAULT '0' NOT NULL, 
	task_id TEXT DEFAULT '' NOT NULL, 
	execution_id TEXT DEFAULT '' NOT NULL, 
	input_id TEXT DEFAULT '' NOT NULL, 
	message TEXT DEFAULT '' NOT NULL, 
	plan_revision BIGINT DEFAULT '0' NOT NULL, 
	payload TEXT DEFAULT '{}' NOT NULL, 
	PRIMARY KEY (tenant_id, run_id, number)
);
INSERT INTO "events" VALUES('default','half-way',1,1,'RUN_STARTED',1700000100436157,'','','','',0,'{"run":{"step_attempt":1,"budget":{},"blocked_on":"WORKER","blocked_since_us":1700000100436157,"created_us":1700000100436157},"executions":[{"execution_id":"plan:1#1","kind":"PLAN","iteration":1,"attempt":1,"queue":"embedded:half-way","status":"READY","offered_us":1700000100436157}]}');
INSERT INTO "events" VALUES('default','half-way',2,2,'EXECUTION_LEASED',1700000100484488,'','plan:1#1','','',0,'{"run":{"status":"RUNNING","stages":[],"blocked_on":"NONE","blocked_since_us":1700000100484488,"started_us":1700000100484488},"executions":[{"execution_id":"plan:1#1","status":"LEASED","worker_id":"embedded:half-way","leased_us":1700000100484488}]}');
INSERT INTO "events" VALUES('default','half-way',3,3,'PLAN_ACCEPTED',1700000100504630,'','','','',1,'{"run":{"phase":"EXECUTING","iteration":1,"plan_revision":1,"stages_fixed":true,"step_attempt":0,"step_spent":0,"counts":{"total":3},"blocked_on":"WORKER","blocked_since_us":1700000100504630},"tasks":[{"task_id":"a","status":"READY","attempts":1},{"task_id":"b","status":"READY","attempts":1}],"executions":[{"execution_id":"plan:1#1","status":"COMPLETED","ended_us":1700000100504630},{"execution_id":"task:a#1","kind":"TASK","task_id":"a","iteration":1,"attempt":1,"queue":"embedded:half-way","status":"READY","offered_us":1700000100504630},{"execution_id":"task:b#1","kind":"TASK","task_id":"b","iteration":1,"attempt":1,"queue":"embedded:half-way","status":"READY","offered_us":1700000100504630}]}');
INSERT INTO "events" VALUES('default','half-way',4,3,'EXECUTION_LEASED',1700000100504954,'a','task:a#1','','',0,'{"tasks":[{"task_id":"a","status":"RUNNING","started_us":1700000100504954}],"executions":[{"execution_id":"task:a#1","status":"LEASED","worker_id":"embedded:half-way","leased_us":1700000100504954}]}');
INSERT INTO "events" VALUES('default','half-way',5,3,'EXECUTION_LEASED',1700000100504954,'b','task:b#1','','',0,'{"run":{"blocked_on":"NONE","blocked_since_us":1700000100504954},"tasks":[{"task_id":"b","status":"RUNNING","started_us":1700000100504954}],"executions":[{"execution_id":"task:b#1","status":"LEASED","worker_id":"embedded:half-way","leased_us":1700000100504954}]}');
INSERT INTO "events" VALUES('default','half-way',6,4,'TASK_COMPLETED',1700000100533421,'a','task:a#1','','',0,'{"run":{"counts":{"total":3,"completed":1}},"tasks":[{"task_id":"a","status":"COMPLETED","result_id":"task:a#1","ended_us":1700000100533421}],"executions":[{"execution_id":"task:a#1","status":"COMPLETED","has_result":true,"ended_us":1700000100533421}]}');
INSERT INTO "events" VALUES('acme','run-1',1,1,'EXECUTION_LEASED',1700000000000000,'','','','',0,'{}');
INSERT INTO "events" VALUES('acme','run-1',2,2,'EXECUTION_LEASED',1700000000000000,'','','','',0,'{}');
INSERT INTO "events" VALUES('acme','ended',1,1,'EXECUTION_LEASED',1700000000000000,'','','','',0,'{}');
INSERT INTO "events" VALUES('acme','ended',2,2,'EXECUTION_LEASED',1700000000000000,'','','','',0,'{}');
CREATE TABLE executions (
	seq INTEGER NOT NULL, 
	tenant_id TEXT DEFAULT '' NOT NULL, 
	run_id TEXT DEFAULT '' NOT NULL, 
	execution_id TEXT DEFAULT '' NOT NULL, 
	kind TEXT DEFAULT '' NOT NULL, 
	task_id TEXT DEFAULT '' NOT NULL, 
	status TEXT DEFAULT '' NOT NULL, 
	queue TEXT DEFAULT '' NOT NULL, 
	role TEXT DEFAULT '' NOT NULL, 
	worker_id TEXT DEFAULT '' NOT NULL, 
	backend TEXT DEFAULT '' NOT NULL, 
	session_id TEXT DEFAULT '' NOT NULL, 
	version BIGINT DEFAULT '0' NOT NULL, 
	iteration BIGINT DEFAULT '0' NOT NULL, 
	attempt BIGINT DEFAULT '0' NOT NULL, 
	priority BIGINT DEFAULT '0' NOT NULL, 
	delay_ms BIGINT DEFAULT '0' NOT NULL, 
	available_us BIGINT DEFAULT '0' NOT NULL, 
	begun BIGINT DEFAULT '0' NOT NULL, 
	has_result BIGINT DEFAULT '0' NOT NULL, 
	offered_us BIGINT DEFAULT '0' NOT NULL, 
	leased_us BIGINT DEFAULT '0' NOT NULL, 
	ended_us BIGINT DEFAULT '0' NOT NULL, 
	held_until_us BIGINT DEFAULT '0' NOT NULL, 
	failure TEXT DEFAULT '{}' NOT NULL, 
	usage TEXT DEFAULT '{}' NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (tenant_id, run_id, task_id, execution_id)
);
INSERT INTO "executions" VALUES(1,'default','half-way','plan:1#1','PLAN','','COMPLETED','embedded:half-way','','embedded:half-way','','',3,1,1,0,0,0,0,0,1700000100436157,1700000100484488,1700000100504630,0,'{}','{}');
INSERT INTO "executions" VALUES(2,'default','half-way','task:a#1','TASK','a','COMPLETED','embedded:half-way','','embedded:half-way','','',4,1,1,0,0,0,0,1,1700000100504630,1700000100504954,1700000100533421,0,'{}','{}');
INSERT INTO "executions" VALUES(3,'default','half-way','task:b#1','TASK','b','LEASED','embedded:half-way','','embedded:half-way','','',3,1,1,0,0,0,0,0,1700000100504630,1700000100504954,0,0,'{}','{}');
INSERT INTO "executions" VALUES(4,'acme','run-1','task:a#1','TASK','a','LEASED','default','','worker-1','','',1,1,1,0,0,0,0,0,0,0,0,0,'{}','{}');
INSERT INTO "executions" VALUES(5,'acme','run-1','task:b#1','TASK','b','COMPLETED','default','','worker-1','','',2,1,1,0,0,0,0,1,0,0,0,0,'{}','{}');
CREATE TABLE inputs (
	seq INTEGER NOT NULL, 
	tenant_id TEXT DEFAULT '' NOT NULL, 
	run_id TEXT DEFAULT '' NOT NULL, 
	input_id TEXT DEFAULT '' NOT NULL, 
	task_id TEXT DEFAULT '' NOT NULL, 
	execution_id TEXT DEFAULT '' NOT NULL, 
	kind TEXT DEFAULT '' NOT NULL, 
	status TEXT DEFAULT '' NOT NULL, 
	prompt TEXT DEFAULT '' NOT NULL, 
	schema TEXT DEFAULT '' NOT NULL, 
	choices TEXT DEFAULT '{}' NOT NULL, 
	version BIGINT DEFAULT '0' NOT NULL, 
	expires_ms BIGINT DEFAULT '0' NOT NULL, 
	on_expiry TEXT DEFAULT '' NOT NULL, 
	answered_by TEXT DEFAULT '' NOT NULL, 
	answer_media_type TEXT, 
	answer BLOB, 
	created_us BIGINT DEFAULT '0' NOT NULL, 
	ended_us BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (tenant_id, run_id, input_id)
);
INSERT INTO "inputs" VALUES(1,'acme','run-1','q1','a','','INPUT','OPEN','sure?','','[]',2,0,'WAIT','',NULL,NULL,0,0);
INSERT INTO "inputs" VALUES(2,'acme','run-1','q2','a','','INPUT','ANSWERED','sure?','','[]',2,0,'WAIT','',NULL,NULL,0,0);
CREATE TABLE leases (
	tenant_id TEXT DEFAULT '' NOT NULL, 
	run_id TEXT DEFAULT '' NOT NULL, 
	execution_id TEXT DEFAULT '' NOT NULL, 
	token TEXT DEFAULT '' NOT NULL, 
	worker_id TEXT DEFAULT '' NOT NULL, 
	instance_id TEXT DEFAULT '' NOT NULL, 
	version BIGINT DEFAULT '0' NOT NULL, 
	armed BIGINT DEFAULT '0' NOT NULL, 
	deadline_us BIGINT DEFAULT '0' NOT NULL, 
	limit_us BIGINT DEFAULT '0' NOT NULL, 
	held_until_us BIGINT DEFAULT '0' NOT NULL, 
	backend TEXT DEFAULT '' NOT NULL, 
	session_id TEXT DEFAULT '' NOT NULL, 
	progress_media_type TEXT, 
	progress BLOB, 
	PRIMARY KEY (tenant_id, run_id, execution_id)
)
 WITHOUT ROWID

;
INSERT INTO "leases" VALUES('acme','run-1','task:a#1','t1','worker-1','instance-1',1,1,1700000161047614,0,0,'','',NULL,NULL);
INSERT INTO "leases" VALUES('default','half-way','task:b#1','8e6b73c8c1bb663449074996aaf204e3','embedded:half-way','597d37fc-3afb-48c2-9dd5-e187169713b2',3,1,1700000160518070,0,0,'','',NULL,NULL);
CREATE TABLE logs (
	seq INTEGER NOT NULL, 
	tenant_id TEXT DEFAULT '' NOT NULL, 
	run_id TEXT DEFAULT '' NOT NULL, 
	execution_id TEXT DEFAULT '' NOT NULL, 
	level TEXT DEFAULT '' NOT NULL, 
	text TEXT DEFAULT '' NOT NULL, 
	written_us BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (seq)
);
INSERT INTO "logs" VALUES(1,'acme','run-1','task:a#1','INFO','first',0);
INSERT INTO "logs" VALUES(2,'acme','run-1','task:a#1','INFO','second',0);
CREATE TABLE messages (
	seq INTEGER NOT NULL, 
	tenant_id TEXT DEFAULT '' NOT NULL, 
	run_id TEXT DEFAULT '' NOT NULL, 
	task_id TEXT DEFAULT '' NOT NULL, 
	execution_id TEXT DEFAULT '' NOT NULL, 
	role TEXT DEFAULT '' NOT NULL, 
	backend TEXT DEFAULT '' NOT NULL, 
	session_id TEXT DEFAULT '' NOT NULL, 
	content TEXT DEFAULT '' NOT NULL, 
	version BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (seq)
);
INSERT INTO "messages" VALUES(1,'acme','run-1','a','task:a#1','assistant','','','one',2);
INSERT INTO "messages" VALUES(2,'acme','run-1','a','task:a#1','assistant','','','two',2);
CREATE TABLE meta (
	"key" TEXT DEFAULT '' NOT NULL, 
	value TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY ("key")
)
 WITHOUT ROWID

;
INSERT INTO "meta" VALUES('born_us','1700000099935671');
INSERT INTO "meta" VALUES('store_id','b437bad8-ac85-4d48-a24d-e8953d4839fa');
CREATE TABLE outcomes (
	tenant_id TEXT DEFAULT '' NOT NULL, 
	run_id TEXT DEFAULT '' NOT NULL, 
	execution_id TEXT DEFAULT '' NOT NULL, 
	backend TEXT DEFAULT '' NOT NULL, 
	session_id TEXT DEFAULT '' NOT NULL, 
	prompt TEXT DEFAULT '' NOT NULL, 
	response TEXT DEFAULT '' NOT NULL, 
	result_media_type TEXT, 
	result BLOB, 
	PRIMARY KEY (tenant_id, run_id, execution_id)
);
INSERT INTO "outcomes" VALUES('default','half-way','task:a#1','','','','','application/json',X'32');
INSERT INTO "outcomes" VALUES('acme','run-1','task:b#1','','','','','application/json',X'5B315D');
CREATE TABLE payloads (
	tenant_id TEXT DEFAULT '' NOT NULL, 
	run_id TEXT DEFAULT '' NOT NULL, 
	"key" TEXT DEFAULT '' NOT NULL, 
	data_media_type TEXT, 
	data BLOB, 
	PRIMARY KEY (tenant_id, run_id, "key")
);
INSERT INTO "payloads" VALUES('acme','run-1','input','application/json',X'7B2278223A20317D');
CREATE TABLE plans (
	tenant_id TEXT DEFAULT '' NOT NULL, 
	run_id TEXT DEFAULT '' NOT NULL, 
	revision BIGINT DEFAULT '0' NOT NULL, 
	version BIGINT DEFAULT '0' NOT NULL, 
	parent_revision BIGINT DEFAULT '0' NOT NULL, 
	iteration BIGINT DEFAULT '0' NOT NULL, 
	task_count BIGINT DEFAULT '0' NOT NULL, 
	created_us BIGINT DEFAULT '0' NOT NULL, 
	"trigger" TEXT DEFAULT '' NOT NULL, 
	reason TEXT DEFAULT '' NOT NULL, 
	fingerprint TEXT DEFAULT '' NOT NULL, 
	specs BLOB NOT NULL, 
	PRIMARY KEY (tenant_id, run_id, revision)
);
INSERT INTO "plans" VALUES('default','half-way',1,3,0,1,3,1700000100504630,'PLANNED','','aeb9a5940e6fe22287fda796ebe2704dbb73667b8b37055188ee15f8a985bed3',X'9383A77461736B5F6964A161A474797065A6646F75626C65A5696E70757482A464617461C40131AA6D656469615F74797065B06170706C69636174696F6E2F6A736F6E83A77461736B5F6964A162A474797065A6646F75626C65A5696E70757482A464617461C40132AA6D656469615F74797065B06170706C69636174696F6E2F6A736F6E83A77461736B5F6964A373756DA474797065A373756DAA646570656E64735F6F6E92A161A162');
INSERT INTO "plans" VALUES('acme','run-1',1,1,0,1,2,0,'PLANNED','','',X'9281A77461736B5F6964A16181A77461736B5F6964A162');
CREATE TABLE requests (
	tenant_id TEXT DEFAULT '' NOT NULL, 
	run_id TEXT DEFAULT '' NOT NULL, 
	committed_version BIGINT DEFAULT '0' NOT NULL, 
	request_id TEXT DEFAULT '' NOT NULL, 
	fingerprint TEXT DEFAULT '' NOT NULL, 
	version BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (tenant_id, run_id, committed_version)
)
 WITHOUT ROWID

;
INSERT INTO "requests" VALUES('acme','run-1',2,'r1','of r1',2);
CREATE TABLE runs (
	seq INTEGER NOT NULL, 
	tenant_id TEXT DEFAULT '' NOT NULL, 
	run_id TEXT DEFAULT '' NOT NULL, 
	pipeline_id TEXT DEFAULT '' NOT NULL, 
	queue TEXT DEFAULT '' NOT NULL, 
	executor_id TEXT DEFAULT '' NOT NULL, 
	status TEXT DEFAULT '' NOT NULL, 
	phase TEXT DEFAULT '' NOT NULL, 
	blocked_on TEXT DEFAULT '' NOT NULL, 
	pause_reason TEXT DEFAULT '' NOT NULL, 
	finish_reason TEXT DEFAULT '' NOT NULL, 
	reason TEXT DEFAULT '' NOT NULL, 
	version BIGINT DEFAULT '0' NOT NULL, 
	last_event BIGINT DEFAULT '0' NOT NULL, 
	iteration BIGINT DEFAULT '0' NOT NULL, 
	plan_revision BIGINT DEFAULT '0' NOT NULL, 
	stages TEXT DEFAULT '{}' NOT NULL, 
	stages_fixed BIGINT DEFAULT '0' NOT NULL, 
	allowance BIGINT DEFAULT '0' NOT NULL, 
	step_attempt BIGINT DEFAULT '0' NOT NULL, 
	step_spent BIGINT DEFAULT '0' NOT NULL, 
	counts TEXT DEFAULT '{}' NOT NULL, 
	usage TEXT DEFAULT '{}' NOT NULL, 
	budget TEXT DEFAULT '{}' NOT NULL, 
	failure TEXT DEFAULT '{}' NOT NULL, 
	result_id TEXT DEFAULT '' NOT NULL, 
	blocked_since_us BIGINT DEFAULT '0' NOT NULL, 
	created_us BIGINT DEFAULT '0' NOT NULL, 
	started_us BIGINT DEFAULT '0' NOT NULL, 
	ended_us BIGINT DEFAULT '0' NOT NULL, 
	goal TEXT DEFAULT '' NOT NULL, 
	labels TEXT DEFAULT '{}' NOT NULL, 
	input_params TEXT, 
	max_iterations BIGINT DEFAULT '0' NOT NULL, 
	max_parallel BIGINT DEFAULT '0' NOT NULL, 
	priority BIGINT DEFAULT '0' NOT NULL, 
	initial_budget TEXT DEFAULT '{}' NOT NULL, 
	step_retry TEXT NOT NULL, 
	step_timeout_ms BIGINT DEFAULT '0' NOT NULL, 
	start_delay_ms BIGINT DEFAULT '0' NOT NULL, 
	parent_version BIGINT DEFAULT '0' NOT NULL, 
	parent_run_id TEXT DEFAULT '' NOT NULL, 
	request_fingerprint TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (tenant_id, run_id)
);
INSERT INTO "runs" VALUES(1,'default','half-way','','embedded:half-way','embedded','RUNNING','EXECUTING','NONE','NONE','NONE','',4,6,1,1,'[]',1,1,0,0,'{"total":3,"completed":1}','{}','{}','{}','',1700000100504954,1700000100436157,1700000100484488,0,'add','{}',NULL,10,32,0,'{}','{}',0,0,0,'','e3833a2f83b06fd37c0539946b6d7be1dda0a1b1a49a44562be9e61e0ad6d032');
INSERT INTO "runs" VALUES(2,'acme','run-1','survey','default','','RUNNING','PLANNING','NONE','NONE','NONE','',2,2,1,0,'[]',0,1,0,0,'{}','{}','{}','{}','',0,1700000000000000,0,0,'g','{"team":"a"}','{"x": 1}',10,32,0,'{"tasks":5}','{}',0,0,0,'','');
INSERT INTO "runs" VALUES(3,'acme','ended','','default','','SUCCEEDED','PLANNING','NONE','NONE','NONE','',2,2,1,0,'[]',0,1,0,0,'{}','{}','{}','{}','',0,1700000000000000,0,1700000000000000,'','{}',NULL,10,32,0,'{}','{}',0,0,0,'','');
CREATE TABLE sessions (
	tenant_id TEXT DEFAULT '' NOT NULL, 
	run_id TEXT DEFAULT '' NOT NULL, 
	backend TEXT DEFAULT '' NOT NULL, 
	session_id TEXT DEFAULT '' NOT NULL, 
	task_id TEXT DEFAULT '' NOT NULL, 
	execution_id TEXT DEFAULT '' NOT NULL, 
	version BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (tenant_id, run_id, backend, session_id)
)
 WITHOUT ROWID

;
CREATE TABLE tasks (
	tenant_id TEXT DEFAULT '' NOT NULL, 
	run_id TEXT DEFAULT '' NOT NULL, 
	task_id TEXT DEFAULT '' NOT NULL, 
	revision BIGINT DEFAULT '0' NOT NULL, 
	position BIGINT DEFAULT '2147483647' NOT NULL, 
	status TEXT DEFAULT '' NOT NULL, 
	version BIGINT DEFAULT '0' NOT NULL, 
	attempts BIGINT DEFAULT '0' NOT NULL, 
	spent BIGINT DEFAULT '0' NOT NULL, 
	allowance BIGINT DEFAULT '0' NOT NULL, 
	result_id TEXT DEFAULT '' NOT NULL, 
	input_id TEXT DEFAULT '' NOT NULL, 
	failure TEXT DEFAULT '{}' NOT NULL, 
	started_us BIGINT DEFAULT '0' NOT NULL, 
	ended_us BIGINT DEFAULT '0' NOT NULL, 
	type TEXT DEFAULT '' NOT NULL, 
	title TEXT DEFAULT '' NOT NULL, 
	role TEXT DEFAULT '' NOT NULL, 
	idempotency_key TEXT DEFAULT '' NOT NULL, 
	effect TEXT DEFAULT '' NOT NULL, 
	on_failure TEXT DEFAULT '' NOT NULL, 
	depends_on TEXT DEFAULT '{}' NOT NULL, 
	retry TEXT DEFAULT '{}' NOT NULL, 
	prompt TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (tenant_id, run_id, task_id)
);
INSERT INTO "tasks" VALUES('default','half-way','a',1,0,'COMPLETED',4,1,0,0,'task:a#1','','{}',1700000100504954,1700000100533421,'double','','','half-way/a','IDEMPOTENT','FAIL_RUN','[]','{}','');
INSERT INTO "tasks" VALUES('default','half-way','b',1,1,'RUNNING',3,1,0,0,'','','{}',1700000100504954,0,'double','','','half-way/b','IDEMPOTENT','FAIL_RUN','[]','{}','');
INSERT INTO "tasks" VALUES('default','half-way','sum',1,2,'PENDING',3,0,0,0,'','','{}',0,0,'sum','','','half-way/sum','IDEMPOTENT','FAIL_RUN','["a","b"]','{}','');
INSERT INTO "tasks" VALUES('acme','run-1','a',1,0,'READY',1,0,0,0,'','','{}',0,0,'','','','run-1/a','IDEMPOTENT','FAIL_RUN','[]','{}','');
INSERT INTO "tasks" VALUES('acme','run-1','b',1,1,'COMPLETED',2,0,0,0,'task:b#1','','{}',0,0,'','','','run-1/b','IDEMPOTENT','FAIL_RUN','[]','{}','');
CREATE TABLE timers (
	tenant_id TEXT DEFAULT '' NOT NULL, 
	run_id TEXT DEFAULT '' NOT NULL, 
	name TEXT DEFAULT '' NOT NULL, 
	version BIGINT DEFAULT '0' NOT NULL, 
	due_us BIGINT DEFAULT '0' NOT NULL, 
	held_until_us BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (tenant_id, run_id, name)
)
 WITHOUT ROWID

;
INSERT INTO "timers" VALUES('acme','run-1','timer',1,1700003701047614,0);
CREATE TABLE tombstones (
	tenant_id TEXT DEFAULT '' NOT NULL, 
	run_id TEXT DEFAULT '' NOT NULL, 
	version BIGINT DEFAULT '0' NOT NULL, 
	expires_us BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (tenant_id, run_id)
)
 WITHOUT ROWID

;
INSERT INTO "tombstones" VALUES('acme','gone',1,1700007301109142);
CREATE TABLE workers (
	tenant_id TEXT DEFAULT '' NOT NULL, 
	worker_id TEXT DEFAULT '' NOT NULL, 
	instance_id TEXT DEFAULT '' NOT NULL, 
	replica_id TEXT DEFAULT '' NOT NULL, 
	queues TEXT DEFAULT '{}' NOT NULL, 
	roles TEXT DEFAULT '{}' NOT NULL, 
	kinds TEXT DEFAULT '{}' NOT NULL, 
	credits BIGINT DEFAULT '0' NOT NULL, 
	expires_us BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (tenant_id, worker_id, instance_id)
)
 WITHOUT ROWID

;
INSERT INTO "workers" VALUES('acme','worker-1','instance-1','replica-1','["default"]','["coder"]','["TASK","PLAN"]',3,4948925101101405);
INSERT INTO "workers" VALUES('default','embedded:half-way','597d37fc-3afb-48c2-9dd5-e187169713b2','814d3611-c4d7-45dc-881e-9b74fbd281dc','["embedded:half-way"]','["*"]','["PLAN","TASK","REFLECT","SYNTHESIZE"]',0,1700000115469130);
CREATE INDEX runs_by_pipeline ON runs (tenant_id, pipeline_id, seq);
CREATE INDEX runs_by_status ON runs (tenant_id, status, seq);
CREATE INDEX runs_by_birth ON runs (tenant_id, seq);
CREATE INDEX tasks_in_order ON tasks (tenant_id, run_id, revision, position, task_id);
CREATE INDEX executions_delayed ON executions (available_us) WHERE status = 'READY';
CREATE INDEX executions_in_order ON executions (tenant_id, run_id, seq);
CREATE INDEX executions_ready ON executions (tenant_id, queue, kind, role, priority, available_us, seq) WHERE status = 'READY';
CREATE INDEX executions_open ON executions (tenant_id, run_id, status) WHERE status IN ('READY', 'LEASED', 'UNKNOWN_OUTCOME');
CREATE INDEX leases_of_worker ON leases (tenant_id, worker_id, run_id, execution_id, token, instance_id);
CREATE INDEX leases_due ON leases (deadline_us, tenant_id, run_id, execution_id) WHERE armed = 1;
CREATE INDEX timers_due ON timers (due_us, tenant_id, run_id, name);
CREATE INDEX commits_of_tenant ON commits (tenant_id, seq);
CREATE INDEX inputs_open ON inputs (tenant_id, run_id, status) WHERE status = 'OPEN';
CREATE INDEX messages_of_task ON messages (tenant_id, run_id, task_id, seq);
CREATE INDEX messages_in_order ON messages (tenant_id, run_id, seq);
CREATE INDEX logs_in_order ON logs (tenant_id, run_id, seq);
CREATE INDEX logs_of_execution ON logs (tenant_id, run_id, execution_id, seq);
CREATE INDEX workers_by_expiry ON workers (expires_us);
CREATE INDEX tombstones_by_expiry ON tombstones (expires_us);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('commits',9);
COMMIT;
