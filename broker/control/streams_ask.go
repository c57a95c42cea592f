package control

import (
	"bytes"
	"encoding/json"

	"signalbox/broker"
)

// streamAsk are the members of commands about streams that no others have, in
// the spelling that brokers document.
type streamAsk struct {
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

// ListStreams makes the command for count streams from offset on, as records if
// verbose and otherwise as names; a count of -1 means all.
func ListStreams(verbose bool, count, offset int) Command {
	return Command{Name: opListStreams, Verbose: verbose, Count: &count, Offset: offset}
}

// aboutStream makes a command that has nothing but the name of a stream.
func aboutStream(op, streamname string) Command {
	return Command{Name: op, streamAsk: &streamAsk{StreamName: streamname}}
}

// GetStream makes the command of this name.
func GetStream(streamname string) Command { return aboutStream(opGetStream, streamname) }

// CreateStream makes the command of this name. What is not given is asked for
// by its default, because those of brokers are not documented.
func CreateStream(s broker.StreamSpec) Command { return define(opCreateStream, complete(s)) }

// ModifyStream makes the command of this name. With replace, what is not given
// is asked for by its default, as in CreateStream.
func ModifyStream(s broker.StreamSpec, replace bool) Command {
	if replace {
		s = complete(s)
	}
	c := define(opModifyStream, s)
	c.Replace = &replace
	return c
}

// DeleteStream makes the command of this name.
func DeleteStream(streamname string) Command { return aboutStream(opDeleteStream, streamname) }

// CountStreamMessages makes the command getStreamMessageCount.
func CountStreamMessages(streamname string) Command {
	return aboutStream(opCountStreamMessages, streamname)
}

// ClearStreamMessages makes the command of this name for the messages that came
// from gte to lte, in Unix seconds; nil is open.
func ClearStreamMessages(streamname string, gte, lte *float64) Command {
	c := aboutStream(opClearStreamMessages, streamname)
	c.GTE, c.LTE = gte, lte
	return c
}

// ReplayStream makes the command of this name. There is no number for the
// fastest replay that all brokers know, but a word.
func ReplayStream(r broker.StreamReplay) Command {
	c := aboutStream(opReplayStream, r.StreamName)
	c.ReplayTopic, c.GTE, c.LTE, c.Limit, c.Speed, c.Reverse = r.ReplayTopic, r.GTE, r.LTE, &r.Limit, r.Speed, &r.Reverse
	if r.Speed == 0 {
		c.Speed = speedFastest
	}
	return c
}

// StopStreamReplay makes the command of this name.
func StopStreamReplay(streamname string) Command { return aboutStream(opStopStreamReplay, streamname) }

func define(op string, s broker.StreamSpec) Command {
	return Command{Name: op, TTL: s.TTL, streamAsk: &streamAsk{
		StreamName: s.StreamName, SourceTopic: s.SourceTopic, TargetTopic: s.TargetTopic, TargetQoS: s.TargetQoS, Key: s.Key,
		TextName: s.TextName, TextDescription: s.TextDescription,
		Active: s.Active, Process: s.Process, Persist: s.Persist, Query: s.Query,
	}}
}

// complete gives every member of a definition but the key, which brokers need
// not know: what is not there gets its default.
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
