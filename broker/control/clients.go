package control

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// The texts of client control.
const (
	errQoS        refusal = "Invalid/missing qos"
	errIdentifier refusal = "Invalid subscription_identifier"
	errSendRetain refusal = "Invalid send_retain"
)

// maxIdentifier is the largest subscription identifier [MQTT-3.8.2.1.2].
const maxIdentifier = 268_435_455

// done is the data of a command without a result.
type done struct{}

// ClientControl executes a request on ClientControlTopic.
func ClientControl(ctx context.Context, b broker.ClientControl, payload []byte) []byte {
	return serve(ctx, payload,
		command{opDisconnectClient, func(ctx context.Context, args dynsec.Object) (any, error) {
			id, ok := args.Text("clientid")
			if !ok {
				return nil, errClientID
			}
			return done{}, missing(b.DisconnectClient(ctx, id), errNoClient)
		}},
		command{opSubscribeClient, func(ctx context.Context, args dynsec.Object) (any, error) {
			id, spec, err := subscription(args)
			if err != nil {
				return nil, err
			}
			return done{}, missing(b.SubscribeClient(ctx, id, spec), errNoClient)
		}},
		command{opUnsubscribeClient, func(ctx context.Context, args dynsec.Object) (any, error) {
			id, topic, err := target(args)
			if err != nil {
				return nil, err
			}
			return done{}, missing(b.UnsubscribeClient(ctx, id, topic), errNoClient)
		}},
	)
}

// target reads the client id and the topic of a command.
func target(args dynsec.Object) (clientID, topic string, err error) {
	clientID, ok := args.Text("clientid")
	if !ok {
		return "", "", errClientID
	}
	topic, _ = args.Text("topic")
	if !broker.ValidSubscription(topic) {
		return "", "", errTopic
	}
	return clientID, topic, nil
}

func subscription(args dynsec.Object) (clientID string, s broker.SubscriptionSpec, err error) {
	clientID, s.Topic, err = target(args)
	if err != nil {
		return "", s, err
	}
	qos, ok := args.Int("qos")
	if !ok || qos < 0 || qos > 2 {
		return "", s, errQoS
	}
	identifier, _ := args.Int("subscription_identifier")
	if identifier < 0 || identifier > maxIdentifier {
		return "", s, errIdentifier
	}
	options, _ := args.Object("options")
	s.QoS, s.SubscriptionIdentifier = qos, uint32(identifier)
	s.NoLocal, _ = options.Bool("no_local")
	s.RetainAsPublished, _ = options.Bool("retain_as_published")
	s.SendRetain, err = sendRetain(options)
	return clientID, s, err
}

func sendRetain(options dynsec.Object) (broker.SendRetain, error) {
	way, ok := options.Text("send_retain")
	switch s := broker.SendRetain(way); s {
	case broker.SendAlways, broker.SendNew, broker.SendNever:
		return s, nil
	}
	if ok {
		return "", errSendRetain
	}
	return broker.SendAlways, nil
}
