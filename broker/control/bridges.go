package control

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// The control topic of a bridge is the id of the bridge between these.
const (
	bridgeTopicPrefix = "$CONTROL/cedalo/"
	bridgeTopicSuffix = "/v1"
	bridgeIDSuffix    = "-bridge"
)

// TakesLong reports whether a request on the control topic of a bridge may take long,
// because it waits for other systems.
func TakesLong(payload []byte) bool {
	commands, _ := dynsec.DecodeCommands(payload)
	return slices.ContainsFunc(commands, func(c dynsec.OtherCommand) bool { return strings.EqualFold(c.Name, opTestBridge) })
}

// BridgeTopic returns the control topic of a bridge, such as "http-bridge".
func BridgeTopic(bridgeID string) string { return bridgeTopicPrefix + bridgeID + bridgeTopicSuffix }

// BridgeID returns the id of the bridge that a control topic belongs to, if it is
// that of a bridge.
func BridgeID(topic string) (bridgeID string, ok bool) {
	rest, begins := strings.CutPrefix(topic, bridgeTopicPrefix)
	id, ends := strings.CutSuffix(rest, bridgeTopicSuffix)
	return id, begins && ends && IsBridgeID(id)
}

// IsBridgeID reports whether a name can be the id of a bridge.
func IsBridgeID(name string) bool {
	return len(name) > len(bridgeIDSuffix) && strings.HasSuffix(name, bridgeIDSuffix) && utf8.ValidString(name) &&
		!strings.ContainsAny(name, "/+#\x00")
}

// The texts of bridges.
const (
	errBridgeConfig   refusal = "Invalid/missing configChange"
	errTestConfig     refusal = "Invalid config"
	errConnectionName refusal = "Invalid/missing connectionName"
	errDeadLetterIDs  refusal = "Invalid ids"
	errNoBridge       refusal = "Bridge not found"
	errNoConnection   refusal = "Connection not found"
)

// bridgeUpdated is the data of updateConfig.
type bridgeUpdated struct {
	Response string `json:"response"`
}

// bridgeSuccess is the text of other brokers as well.
const bridgeSuccess = "SUCCESS"

// Bridge executes a request on the control topic of a bridge. The commands
// getConfigSchema, testConfig and those about dead letters are extensions.
func Bridge(ctx context.Context, b broker.Bridges, bridgeID string, payload []byte) []byte {
	args := reread(payload)
	simple := func(op string, do func(context.Context) (any, error)) command {
		return command{op, func(ctx context.Context, _ dynsec.Object) (any, error) {
			data, err := do(ctx)
			return data, missing(err, errNoBridge)
		}}
	}
	with := func(op string, do func(context.Context, members) (any, error)) command {
		return command{op, func(ctx context.Context, _ dynsec.Object) (any, error) {
			m, fault := args.next(op)
			if fault != nil {
				return nil, fault
			}
			data, err := do(ctx, m)
			return data, missing(err, errNoBridge)
		}}
	}
	return serve(ctx, payload, append(deadLetterCommands(b, bridgeID, with),
		simple(opGetBridgeConfig, func(ctx context.Context) (any, error) { return b.GetBridgeConfig(ctx, bridgeID) }),
		simple(opGetBridgeSchema, func(ctx context.Context) (any, error) { return b.GetBridgeSchema(ctx, bridgeID) }),
		simple(opGetBridgeStatus, func(ctx context.Context) (any, error) {
			list, err := b.GetBridgeStatus(ctx, bridgeID)
			return append([]broker.BridgeStatus{}, list...), err
		}),
		with(opUpdateBridgeConfig, func(ctx context.Context, m members) (any, error) { return updateBridge(ctx, b, bridgeID, m) }),
		with(opTestBridge, func(ctx context.Context, m members) (any, error) { return testBridge(ctx, b, bridgeID, m) }),
	)...)
}

// deadLetterCommands returns the commands about the dead letters of a connection, each
// made by with.
func deadLetterCommands(b broker.Bridges, bridgeID string, with func(op string, do func(context.Context, members) (any, error)) command) []command {
	of := func(op string, do func(ctx context.Context, connection string, m members) (any, error)) command {
		return with(op, func(ctx context.Context, m members) (any, error) {
			name, err := member[string](m, "connectionname")
			if err != nil || name == nil || *name == "" {
				return nil, errConnectionName
			}
			data, err := do(ctx, *name, m)
			return data, missing(err, errNoConnection)
		})
	}
	some := func(op string, do func(ctx context.Context, bridgeID, connection string, ids []string) (int, error)) command {
		return of(op, func(ctx context.Context, connection string, m members) (any, error) {
			ids, err := m.deadLetterIDs()
			if err != nil {
				return nil, err
			}
			n, err := do(ctx, bridgeID, connection, ids)
			return deadLetterCount{n}, err
		})
	}
	return []command{
		of(opListDeadLetters, func(ctx context.Context, connection string, m members) (any, error) {
			return listDeadLetters(ctx, b, bridgeID, connection, m)
		}),
		some(opRetryDeadLetters, b.RetryDeadLetters),
		some(opDeleteDeadLetters, b.DeleteDeadLetters),
	}
}

func updateBridge(ctx context.Context, b broker.Bridges, bridgeID string, m members) (any, error) {
	config, ok := m.object("configchange")
	if !ok || config == nil {
		return nil, errBridgeConfig
	}
	return bridgeUpdated{bridgeSuccess}, b.SetBridgeConfig(ctx, bridgeID, config)
}

// testBridge tests the given configuration, or the stored one.
func testBridge(ctx context.Context, b broker.Bridges, bridgeID string, m members) (any, error) {
	config, ok := m.object("config")
	if !ok {
		return nil, errTestConfig
	}
	list, err := b.TestBridge(ctx, bridgeID, config)
	return append([]broker.BridgeTest{}, list...), err
}

// object returns a member that is an object, nil if it is absent. For anything else the
// second result is false.
func (m members) object(name string) (value json.RawMessage, ok bool) {
	raw, given := m.raw(name)
	if !given {
		return nil, true
	}
	return raw, raw[0] == '{' && utf8.Valid(raw)
}

// deadLetterList is the data of listDeadLetters.
type deadLetterList struct {
	TotalCount  int               `json:"totalCount"`
	DeadLetters []json.RawMessage `json:"deadLetters"`
}

func listDeadLetters(ctx context.Context, b broker.Bridges, bridgeID, connection string, m members) (any, error) {
	var offset, count *int
	var err error
	take(m, "offset", &offset, &err)
	take(m, "count", &count, &err)
	orElse(&offset, 0)
	orElse(&count, -1)
	if err != nil {
		return nil, err
	}
	page, err := b.ListDeadLetters(ctx, bridgeID, connection, max(*offset, 0), max(*count, -1))
	if err != nil {
		return nil, err
	}
	list, err := collected(page.Items, func(l broker.DeadLetter) any { return l })
	return deadLetterList{TotalCount: page.Total, DeadLetters: list}, err
}

// deadLetterCount is the data of retryDeadLetters and deleteDeadLetters.
type deadLetterCount struct {
	Count int `json:"count"`
}

// deadLetterIDs returns the dead letters to which a command applies: those that it
// names, or none for all.
func (m members) deadLetterIDs() ([]string, error) {
	ids, err := member[[]string](m, "ids")
	switch {
	case err != nil, ids != nil && len(*ids) == 0:
		return nil, errDeadLetterIDs
	case ids == nil:
		return nil, nil
	}
	return *ids, nil
}
