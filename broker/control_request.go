package broker

// ControlRequest is a request of an MQTT client to a control API, with the commands of it that
// change something.
type ControlRequest struct {
	Topic    string
	Username string
	ClientID string
	Address  string // IP address of the client
	Commands []ControlCommand
}

// ControlCommand is a command of a control API. Members are the arguments that may be recorded,
// without secrets.
type ControlCommand struct {
	Name    string
	Members map[string]any
}

// ControlOutcome is the outcome of a command. Reason is "" also where it may not be recorded.
type ControlOutcome struct {
	Failed bool
	Reason string
}

// ControlAudit records a request before it is executed. An error means that it must not be. end
// records the outcome of each command; without outcomes they are not known.
type ControlAudit func(q ControlRequest) (end func(outcomes []ControlOutcome), err error)
