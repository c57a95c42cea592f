package broker

// ControlRequest is a request of an MQTT client to a control API, with the commands of it that
// may change something.
type ControlRequest struct {
	Topic    string
	Username string
	ClientID string
	Address  string // IP address of the client
	Commands []ControlCommand
}

// ControlCommand is a command of a control API. Members are those that may be recorded, without
// secrets, by their names in lower case.
type ControlCommand struct {
	Name    string
	Members map[string]any
}

// ControlAudit records a request before it is executed. An error means that it must not be. end
// records the outcome of each command, "" or an error; without outcomes they are not known.
type ControlAudit func(q ControlRequest) (end func(outcomes []string), err error)
