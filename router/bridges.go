package router

import (
	"signalbox/handlers"
	"signalbox/handlers/auth"
)

// deadLetterPath is where the dead letters of a connection are.
const deadLetterPath = bridgePath + "/connections/{connectionName}/deadletters"

// bridgeRoutes are operations 44 to 47.
func bridgeRoutes(h *handlers.API) []route {
	return []route{
		{ID: "listBridges", Method: "GET", Path: brokerPath + "/bridges", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List the bridges available under the licence", Do: query(h.ListBridges),
			Description: "A bridge is a kind of connection to another system. It is active where at least one connection is configured.",
			Example:     `[{"id":"http-bridge","isActive":true},{"id":"mqtt-bridge","isActive":false}]`},
		{ID: "getBridgeConfig", Method: "GET", Path: bridgePath + "/config", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Get the configuration of a bridge", Do: query(h.GetBridgeConfig),
			Description: "Secrets are shown as `********`. A configuration may be changed and sent back with them.",
			Example:     bridgeConfigExample},
		{ID: "setBridgeConfig", Method: "PUT", Path: bridgePath + "/config", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Change the configuration of a bridge", Do: command(h.SetBridgeConfig),
			Description: "The body is the whole configuration. It is looked at as a whole before any of it is applied; where it cannot be used, " +
				"nothing changes and `info.errors` names every place, as in `body.connections[0].connection.url`. A secret that is sent as `********` " +
				"stays as it is, unless the connection is to lead to another address: then it has to be given anew. Connections that stay the same " +
				"are not disturbed; one that is no longer named loses what waits in its queue.",
			BodyExample: bridgeConfigExample},
		{ID: "getBridgeStatus", Method: "GET", Path: bridgePath + "/status", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Get the status of a bridge", Do: query(h.GetBridgeStatus),
			Description: "One entry for each connection, in the order of the configuration.",
			Example: `[{"connectionName":"history","queuedMessages":12,"isConnected":false,"error":"127.0.0.1:9000 refuses connections: is the service up?",` +
				`"stats":{"queuedBytes":1460,"received":112,"delivered":100,"dropped":0,"rejected":0,"retries":3,"inbound":0,"looped":0,"deadLetters":0}}]`},
	}
}

// bridgeExtensions describe and try configurations, and manage what targets do not
// take.
func bridgeExtensions(h *handlers.API) []route {
	return []route{
		{ID: "getBridgeSchema", Method: "GET", Path: bridgePath + "/schema", Role: auth.Viewer, Status: 200,
			Summary: "Get the JSON Schema of a bridge's configuration", Do: query(h.GetBridgeSchema),
			Description: "A JSON Schema (2020-12) with titles, descriptions and defaults. A property with `writeOnly` is a secret, one with " +
				"`x-address` says where secrets are sent to.",
			Example: `{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"HTTP bridge","type":"object"}`},
		{ID: "testBridge", Method: "POST", Path: bridgePath + "/test", Role: auth.Editor, Status: 200,
			Summary: "Try the connections of a configuration without storing it", Do: query(h.TestBridge),
			Description: "Without a body the stored configuration is tried. Nothing is delivered, and the connections that are there are not disturbed.",
			BodyExample: bridgeConfigExample,
			Example:     `[{"connectionName":"history","isConnected":false,"error":"127.0.0.1:9000 refuses connections: is the service up?"}]`},
		{ID: "listDeadLetters", Method: "GET", Path: deadLetterPath, Role: auth.Viewer, Status: 200,
			Summary: "List the messages of a connection that its target does not take", Do: query(h.ListDeadLetters),
			Description: "Oldest first. The payload is text where it can be, otherwise base64 as `encoding` says; long ones are cut off."},
		{ID: "retryDeadLetters", Method: "POST", Path: deadLetterPath + "/retry", Role: auth.Editor, Status: 200,
			Summary: "Put dead letters behind the queue again", Do: query(h.RetryDeadLetters),
			Description: "Those that the body names, or all.", BodyExample: `{"ids":["17","18"]}`, Example: `{"count":2}`},
		{ID: "deleteDeadLetters", Method: "DELETE", Path: deadLetterPath, Role: auth.Editor, Status: 200,
			Summary: "Delete dead letters", Do: query(h.DeleteDeadLetters),
			Description: "Those that `ids` names, or all.", Example: `{"count":2}`},
	}
}

// bridgeConfigExample is a configuration of the http-bridge.
const bridgeConfigExample = `{"version":"v1","connections":[{"name":"history","enabled":true,` +
	`"connection":{"url":"http://127.0.0.1:9000/ingest"},"options":{"maxQueuedMessages":100000,"whenFull":"dropOldest"},` +
	`"topicMappings":[{"name":"all sensors","mqttTopics":["sensors/#"],"schemaMapping":"reading"}]}],` +
	`"schemaMappings":[{"name":"reading","mapping":[{"source":"topic","target":"sensor"},{"source":"jsonPayload.value","target":"value","type":"number"}]}]}`
