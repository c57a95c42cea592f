package control

import (
	"bytes"
	"encoding/json"

	"signalbox/broker"
)

// streamArgs are the members that only commands about streams have, in the documented
// spelling.
type streamArgs struct {
	StreamName      string          `json:"streamname"`
	SourceTopic     *string         `json:"sourcetopic,omitempty"`
	TargetTopic     *string         `json:"targettopic,omitempty"`
	TargetQoS       *int            `json:"targetqos,omitempty"`
	Key             *string         `json:"key,omitempty"`
	TextName        *string         `json:"textname,omitempty"`
	TextDescription *string         `json:"textdescription,omitempty"`
	Active          *bool           `json:"active,omitempty"`
	Process         *bool           `json:"process,omitempty"`
	Persist         *bool           `json:"persist,omitempty"`
	Query           json.RawMessage `json:"query,omitempty"`
	Replace         *bool           `json:"replace,omitempty"`
	ReplayTopic     string          `json:"replaytopic,omitempty"`
	GTE             *float64        `json:"gte,omitempty"`
	LTE             *float64        `json:"lte,omitempty"`
	Limit           *int64          `json:"limit,omitempty"`
	Speed           any             `json:"speed,omitempty"`
	Reverse         *bool           `json:"reverse,omitempty"`
}

// ListStreams returns the command for count streams from offset on, as records if
// verbose and otherwise as names; a count of -1 means all.
func ListStreams(verbose bool, count, offset int) Command {
	return Command{Name: opListStreams, Verbose: verbose, Count: &count, Offset: offset}
}

// aboutStream returns a command whose only argument is the name of a stream.
func aboutStream(op, streamname string) Command {
	return Command{Name: op, streamArgs: &streamArgs{StreamName: streamname}}
}

// GetStream returns the command of this name.
func GetStream(streamname string) Command { return aboutStream(opGetStream, streamname) }

// CreateStream returns the command of this name. Members that are not given are sent
// with their defaults, because those of other brokers are not documented.
func CreateStream(s broker.StreamSpec) Command { return define(opCreateStream, complete(s)) }

// ModifyStream returns the command of this name. With replace, members that are not
// given are sent with their defaults, as in CreateStream.
func ModifyStream(s broker.StreamSpec, replace bool) Command {
	if replace {
		s = complete(s)
	}
	c := define(opModifyStream, s)
	c.Replace = &replace
	return c
}

// DeleteStream returns the command of this name.
func DeleteStream(streamname string) Command { return aboutStream(opDeleteStream, streamname) }

// CountStreamMessages returns the command getStreamMessageCount.
func CountStreamMessages(streamname string) Command {
	return aboutStream(opCountStreamMessages, streamname)
}

// ClearStreamMessages returns the command of this name for the messages received from
// gte to lte, in Unix seconds; nil is open.
func ClearStreamMessages(streamname string, gte, lte *float64) Command {
	c := aboutStream(opClearStreamMessages, streamname)
	c.GTE, c.LTE = gte, lte
	return c
}

// ReplayStream returns the command of this name. No number for the fastest replay is
// known to all brokers, but a word is.
func ReplayStream(r broker.StreamReplay) Command {
	c := aboutStream(opReplayStream, r.StreamName)
	c.ReplayTopic, c.GTE, c.LTE, c.Limit, c.Speed, c.Reverse = r.ReplayTopic, r.GTE, r.LTE, &r.Limit, r.Speed, &r.Reverse
	if r.Speed == 0 {
		c.Speed = speedFastest
	}
	return c
}

// StopStreamReplay returns the command of this name.
func StopStreamReplay(streamname string) Command { return aboutStream(opStopStreamReplay, streamname) }

func define(op string, s broker.StreamSpec) Command {
	return Command{Name: op, TTL: s.TTL, streamArgs: &streamArgs{
		StreamName: s.StreamName, SourceTopic: s.SourceTopic, TargetTopic: s.TargetTopic, TargetQoS: s.TargetQoS, Key: s.Key,
		TextName: s.TextName, TextDescription: s.TextDescription,
		Active: s.Active, Process: s.Process, Persist: s.Persist, Query: s.Query,
	}}
}

// complete returns all members of a definition except the key, which other brokers do
// not know: absent ones have their defaults.
func complete(s broker.StreamSpec) broker.StreamSpec {
	if len(s.Query) == 0 || string(s.Query) == "null" {
		s.Query = json.RawMessage("{}")
	}
	orElse(&s.TargetTopic, "")
	orElse(&s.TargetQoS, -1)
	orElse(&s.TTL, 0)
	orElse(&s.TextName, "")
	orElse(&s.TextDescription, "")
	orElse(&s.Active, true)
	orElse(&s.Process, !emptyObject(s.Query))
	orElse(&s.Persist, false)
	return s
}

func orElse[T any](p **T, otherwise T) {
	if *p == nil {
		*p = &otherwise
	}
}

func emptyObject(raw []byte) bool {
	return bytes.HasPrefix(raw, []byte("{")) && len(bytes.TrimSpace(bytes.Trim(raw, "{}"))) == 0
}
