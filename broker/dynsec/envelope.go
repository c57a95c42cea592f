package dynsec

// The envelope around commands and responses, which is the same on all control
// topics.

// OtherCommand is a command of another control topic than Topic. Correlation is nil if
// it is absent.
type OtherCommand struct {
	Name        string
	Correlation *string
	Args        Object
}

// DecodeCommands reads a request on any control topic, as [DecodeRequest] does for
// Topic: the commands before the fault must still be run.
func DecodeCommands(payload []byte) (commands []OtherCommand, fault *Response) {
	return decodeBatch(payload, decodeOther)
}

func decodeOther(v *value) (OtherCommand, *Response) {
	name, fault := decodeName(v)
	if fault != nil {
		return OtherCommand{}, fault
	}
	correlation, fault := decodeCorrelation(v, name)
	return OtherCommand{Name: name, Correlation: correlation, Args: Object{v}}, fault
}

// decodeBatch reads the commands of a request up to the first that has a fault.
func decodeBatch[T any](payload []byte, decode func(*value) (T, *Response)) ([]T, *Response) {
	v, err := parseJSON(payload)
	if err != nil {
		return nil, &Response{Command: unknownCommand, Error: string(errNotJSON)}
	}
	list, ok := v.get("commands")
	if !ok || list.kind != arrayKind {
		return nil, &Response{Command: unknownCommand, Error: string(errNoCommands)}
	}
	commands := make([]T, 0, len(list.items))
	for i := range list.items {
		c, fault := decode(&list.items[i])
		if fault != nil {
			return commands, fault
		}
		commands = append(commands, c)
	}
	return commands, nil
}

func decodeName(v *value) (string, *Response) {
	if v.kind != objectKind {
		return "", &Response{Command: unknownCommand, Error: string(errNoObject)}
	}
	name := stringArg(v, "command")
	if !name.good {
		return "", &Response{Command: unknownCommand, Error: string(errNoCommand)}
	}
	return name.value, nil
}

func decodeCorrelation(v *value, command string) (*string, *Response) {
	correlation := stringArg(v, "correlationData")
	if correlation.wrong() {
		return nil, &Response{Command: command, Error: string(errCorrelation)}
	}
	return correlation.ptr(), nil
}

// Object is a JSON object of a request. Names of members are case-insensitive; for a
// member that is absent, or of another type, the second result is false. The zero value
// has no members.
type Object struct{ v *value }

// Text returns a member that is a string.
func (o Object) Text(name string) (string, bool) {
	a := stringArg(orNull(o.v), name)
	return a.value, a.good
}

// Int returns a member that is a number, truncated to 32 bits and without fraction.
func (o Object) Int(name string) (int, bool) {
	a := intArg(orNull(o.v), name)
	return a.value, a.good
}

// Bool returns a member that is true or false.
func (o Object) Bool(name string) (value, ok bool) {
	a := boolArg(orNull(o.v), name)
	return a.value, a.good
}

// Object returns a member that is an object.
func (o Object) Object(name string) (Object, bool) {
	m, ok := orNull(o.v).get(name)
	if !ok || m.kind != objectKind {
		return Object{}, false
	}
	return Object{m}, true
}
