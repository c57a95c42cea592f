package router

// The headings under which the document groups operations.
const (
	tagSession    = "Session"
	tagProjects   = "Projects"
	tagSearch     = "Search"
	tagBrokers    = "Brokers"
	tagAccess     = "Access control"
	tagInspection = "Client inspection"
	tagMessages   = "Messages"
	tagTopics     = "Topic tree"
	tagStreams    = "Streams"
	tagBridges    = "Bridges"
	tagClusters   = "Clusters"
	tagTokens     = "Tokens"
	tagUsers      = "Users"
	tagJobs       = "Jobs"
	tagAudit      = "Audit log"
	tagBackups    = "Backups"
	tagService    = "Service"
)

// tags are the headings in the order of the document: from logging in over what most
// callers use to what only administrators need.
var tags = []docTag{
	{tagSession, "Log in and out, and read who is calling. The token of a session, or of a project (see Tokens), is sent in the header " +
		"`Authorization: Bearer TOKEN`."},
	{tagProjects, "A project groups brokers, clusters and tokens. Its members have one role each: viewer, editor or admin."},
	{tagSearch, "Find objects by a part of their name, in all projects and brokers."},
	{tagBrokers, "Connections to MQTT brokers, and what a broker reports about itself. `capabilities` of a broker lists the features that it " +
		"has; an operation on a feature that it lacks is answered with 405 and the code NOT_SUPPORTED."},
	{tagAccess, "Who may connect to a broker and what they may do: clients, groups, roles and the default ACL, as in Mosquitto's dynamic " +
		"security; and bans, recent denials, and the explanation of a decision."},
	{tagInspection, "The MQTT clients that are connected to a broker, and the sessions of those that are not."},
	{tagMessages, "Publish a message; read and delete retained messages; list subscriptions."},
	{tagTopics, "The topics in use at a broker, and the time for which an unused one is listed."},
	{tagStreams, "A stream takes the messages of a topic filter, transforms them with a query, republishes and stores them, and replays " +
		"what it stored."},
	{tagBridges, "A bridge connects a broker to other systems: HTTP services, databases, Kafka, NATS, other MQTT brokers. Each has one or more " +
		"connections, whose configuration is one JSON document."},
	{tagJobs, "Change many objects of a broker in the background: disconnect clients, end sessions, enable, disable and delete clients, " +
		"delete retained messages. Jobs are kept in memory; a restart ends them."},
	{tagClusters, "Brokers that replicate their state with Raft. The mode `dynsec` replicates access control; `hp` also retained messages, and " +
		"messages are forwarded between the nodes; `full` replicates everything, and only the leader serves clients."},
	{tagTokens, "Project tokens, with which programs call this API. A token has a role in one project."},
	{tagUsers, "The users of the platform and its administrators. Only administrators may call these operations."},
	{tagAudit, "Who changed what, who was refused and who logged in, in a chain of hashes."},
	{tagBackups, "The backups that the service keeps. Only administrators may call these operations; to restore one, there is the command " +
		"`signalbox restore`."},
	{tagService, "Health, metrics, this document and the manual."},
}
