package router

import (
	"signalbox/handlers"
	"signalbox/handlers/auth"
)

// deadLetterPath is the path of the dead letters of a connection.
const deadLetterPath = bridgePath + "/connections/{connectionName}/deadletters"

// bridgeRoutes are operations 44 to 47.
func bridgeRoutes(h *handlers.API) []route {
	return []route{
		{ID: "listBridges", Method: "GET", Path: brokerPath + "/bridges", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List the bridges available under the licence", Do: query(h.ListBridges),
			Example: `[{"id":"http-bridge","isActive":true},{"id":"mqtt-bridge","isActive":false}]`,
			Description: "A bridge is a kind of connection to another system. It is active if at least one connection is " +
				"configured."},
		{ID: "getBridgeConfig", Method: "GET", Path: bridgePath + "/config", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Get the configuration of a bridge", Do: query(h.GetBridgeConfig),
			Example:     bridgeConfigExample,
			Description: "Secrets are returned as `********`. The configuration may be changed and sent back with them."},
		{ID: "setBridgeConfig", Method: "PUT", Path: bridgePath + "/config", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Change the configuration of a bridge", Before: "getBridgeConfig", Do: command(h.SetBridgeConfig),
			BodyExample: bridgeConfigExample,
			Description: "The body is the whole configuration. It is validated as a whole before any of it is applied: if it " +
				"is invalid, nothing changes and `info.errors` names every place, as in `body.connections[0].connection.url`. A " +
				"secret that is sent as `********` stays unchanged, unless the connection leads to another address: then it is " +
				"required. Connections that stay the same are not interrupted; the queue of one that is removed is deleted."},
		{ID: "getBridgeStatus", Method: "GET", Path: bridgePath + "/status", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Get the status of a bridge", Do: query(h.GetBridgeStatus),
			Example: `[{"connectionName":"history","queuedMessages":12,"isConnected":false,"error":"127.0.0.1:9000 refuses connections: is the service up?",` +
				`"stats":{"queuedBytes":1460,"received":112,"delivered":100,"dropped":0,"rejected":0,"retries":3,"inbound":0,"looped":0,"deadLetters":0}}]`,
			Description: "One entry for each connection, in the order of the configuration."},
	}
}

// bridgeExtensions describe and test configurations, and manage dead letters.
func bridgeExtensions(h *handlers.API) []route {
	return []route{
		{ID: "getBridgeSchema", Method: "GET", Path: bridgePath + "/schema", Role: auth.Viewer, Status: 200,
			Summary: "Get the JSON Schema of a bridge's configuration", Do: query(h.GetBridgeSchema),
			Example: `{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"HTTP bridge","type":"object"}`,
			Description: "A JSON Schema (2020-12) with titles, descriptions and defaults. A property with `writeOnly` is a " +
				"secret; `x-address` marks a property that determines where secrets are sent."},
		{ID: "testBridge", Method: "POST", Path: bridgePath + "/test", Role: auth.Editor, Status: 200,
			Summary: "Test the connections of a configuration without storing it", Do: query(h.TestBridge),
			BodyExample: bridgeConfigExample,
			Example:     `[{"connectionName":"history","isConnected":false,"error":"127.0.0.1:9000 refuses connections: is the service up?"}]`,
			Description: "Without a body the stored configuration is tested. Nothing is delivered, and existing connections " +
				"are not interrupted."},
		{ID: "previewBridge", Method: "POST", Path: bridgePath + "/preview", Role: auth.Editor, Status: 200,
			Summary: "Preview what a message becomes without sending it", Audit: auditNothing, Do: query(h.PreviewBridge),
			Description: "One entry for each topic mapping that takes messages of the topic, in the order of the configuration, the " +
				"first 100; none if no mapping does. Connections that are not enabled are shown as well. Messages are mapped by the code " +
				"with which they are delivered; nothing is connected, stored or delivered."},
		{ID: "listDeadLetters", Method: "GET", Path: deadLetterPath, Role: auth.Viewer, Status: 200,
			Summary: "List the dead letters of a connection", Do: query(h.ListDeadLetters),
			Description: "Messages that the target refuses or that cannot be converted, the oldest first. The payload is text " +
				"if it is UTF-8, otherwise base64; at most its first 1000 bytes are returned."},
		{ID: "retryDeadLetters", Method: "POST", Path: deadLetterPath + "/retry", Role: auth.Editor, Status: 200,
			Summary: "Deliver dead letters again", Do: query(h.RetryDeadLetters),
			BodyExample: `{"ids":["17","18"]}`, Example: `{"count":2}`,
			Description: "Appends them to the queue of the connection: those that the body names, or all."},
		{ID: "deleteDeadLetters", Method: "DELETE", Path: deadLetterPath, Role: auth.Editor, Status: 200,
			Summary: "Delete dead letters", Do: query(h.DeleteDeadLetters),
			Example:     `{"count":2}`,
			Description: "Those that `ids` names, or all."},
	}
}

// bridgeConfigExample is a configuration of the http-bridge.
const bridgeConfigExample = `{"version":"v1","connections":[{"name":"history","enabled":true,` +
	`"connection":{"url":"http://127.0.0.1:9000/ingest"},"options":{"maxQueuedMessages":100000,"whenFull":"dropOldest"},` +
	`"topicMappings":[{"name":"all sensors","mqttTopics":["sensors/#"],"schemaMapping":"reading"}]}],` +
	`"schemaMappings":[{"name":"reading","mapping":[{"source":"topic","target":"sensor"},{"source":"jsonPayload.value","target":"value","type":"number"}]}]}`
