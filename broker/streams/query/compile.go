package query

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
)

// maxSelects is how many selects a query may have.
const maxSelects = 256

// Compile compiles a query object. No text, null and an object without members
// are the empty query. Member names are matched regardless of case, and unknown
// ones are ignored. The error is of type Problems.
func Compile(raw []byte) (*Query, error) { return compileQuery(raw, false) }

// CompileStrict is Compile for a new query: an unknown member is a problem.
func CompileStrict(raw []byte) (*Query, error) { return compileQuery(raw, true) }

func compileQuery(raw []byte, strict bool) (*Query, error) {
	c := &compiler{
		q:       &Query{sources: &node{slot: -1}},
		output:  &branch{},
		aliases: make(map[string]operand),
		strict:  strict,
	}
	c.query(bytes.Trim(raw, " \t\r\n"))
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	if len(c.output.members) > 0 {
		c.output.write(&c.q.output)
	}
	c.q.fingerprint = c.fingerprint()
	return c.q, nil
}

// compiler builds a query while it reads the object. It continues after a
// problem, in order to report them all.
type compiler struct {
	q        *Query
	problems Problems
	output   *branch
	aliases  map[string]operand
	paths    [][]string // by slot
	bucketed bool
	strict   bool // unknown members are problems
}

func (c *compiler) query(raw []byte) {
	if len(raw) == 0 {
		return
	}
	if !json.Valid(raw) {
		c.refuse("", "must be JSON")
		return
	}
	var m struct{ Select, Where json.RawMessage }
	if isAbsent(raw) || !c.object("", raw, &m) {
		return
	}
	for i, one := range c.list("select", m.Select, maxSelects) {
		c.selection(fmt.Sprintf("select[%d]", i), one)
	}
	for _, one := range c.list("where", m.Where, 1) {
		c.condition(wherePath, one)
	}
}

func (c *compiler) selection(at string, raw json.RawMessage) {
	c.q.selects = true
	var m struct{ Source, Target, Alias, Function json.RawMessage }
	if !c.object(at, raw, &m) {
		return
	}
	value := c.value(at, m.Source, m.Function)
	if target, given := c.path(at+".target", m.Target); given && len(target) > 0 && !c.output.put(target, value) {
		c.refuse(at+".target", "must not be the target of another select, nor inside one or around one")
	}
	c.alias(at+".alias", m.Alias, value)
}

// value compiles the source and the function of a select.
func (c *compiler) value(at string, source, function json.RawMessage) operand {
	if isAbsent(function) {
		return c.plain(at+".source", source)
	}
	var f struct{ Name, IntervalSize, IntervalOffset json.RawMessage }
	if !c.object(at+".function", function, &f) {
		return operand{}
	}
	name, ok := c.required(at+".function.name", f.Name)
	if !ok {
		return operand{}
	}
	switch name {
	case "min":
		return c.aggregate(functionMin, at+".source", source)
	case "max":
		return c.aggregate(functionMax, at+".source", source)
	case "sum":
		return c.aggregate(functionSum, at+".source", source)
	case "count":
		return c.count()
	case "time_bucket":
		return c.bucket(at+".function", f.IntervalSize, f.IntervalOffset)
	}
	c.refuse(at+".function.name", "must be min, max, sum, count or time_bucket")
	return operand{}
}

func (c *compiler) plain(at string, source json.RawMessage) operand {
	slot := c.source(at, source)
	c.q.required = append(c.q.required, requirement{slot, at})
	return operand{member, slot}
}

// source returns the slot of a source. A source is required, so that a
// forgotten one does not select the whole document.
func (c *compiler) source(at string, raw json.RawMessage) (slot int) {
	path, given := c.path(at, raw)
	if !given && isAbsent(raw) {
		c.refuse(at, "is required")
	}
	return c.slot(path)
}

func (c *compiler) slot(path []string) (slot int) {
	slot = c.q.sources.add(path, c.q.slots)
	if slot == c.q.slots {
		c.q.slots++
		c.paths = append(c.paths, path)
	}
	return slot
}

func (c *compiler) aggregate(f function, at string, source json.RawMessage) operand {
	c.q.aggregates = append(c.q.aggregates, aggregate{f, c.source(at, source), at})
	value := operand{kind: extreme, index: len(c.q.aggregates) - 1}
	if f == functionSum {
		value.kind = total
	}
	return value
}

func (c *compiler) count() operand {
	c.q.aggregates = append(c.q.aggregates, aggregate{function: functionCount})
	return operand{kind: messages, index: len(c.q.aggregates) - 1}
}

func (c *compiler) bucket(at string, size, offset json.RawMessage) operand {
	if c.bucketed {
		c.refuse(at+".name", "must not be time_bucket in more than one select")
	}
	c.bucketed = true
	if isAbsent(size) {
		c.refuse(at+".intervalsize", "is required")
	}
	every, given := c.seconds(at+".intervalsize", size)
	if given && every <= 0 {
		c.refuse(at+".intervalsize", "must be greater than 0")
	}
	from, _ := c.seconds(at+".intervaloffset", offset)
	c.q.bucket = bucket{size: every, offset: from % max(every, 1)}
	return operand{kind: start}
}

// alias registers the alias of a selected value.
func (c *compiler) alias(at string, raw json.RawMessage, value operand) {
	name, given := c.text(at, raw)
	if !given {
		return
	}
	switch _, taken := c.aliases[name]; {
	case name == "":
		c.refuse(at, "must not be empty")
	case strings.HasPrefix(name, "["), strings.HasSuffix(name, "]"):
		c.refuse(at, "must not begin or end with a square bracket")
	case taken:
		c.refuse(at, "must not be the alias of another select")
	default:
		c.aliases[name] = value
	}
}

// fingerprint identifies the aggregates of a query: what they compute, of which
// messages, and in which buckets. Targets do not matter. It is stored with
// states, so it must stay the same across versions of this package and of Go.
func (c *compiler) fingerprint() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d\n", c.q.bucket.size, c.q.bucket.offset)
	for _, a := range c.q.aggregates {
		fmt.Fprintf(h, "%d", a.function)
		if a.function != functionCount {
			fmt.Fprintf(h, " %x", c.paths[a.slot])
		}
		fmt.Fprintln(h)
	}
	if w := c.q.where; w.onMessage() {
		fmt.Fprintf(h, "%x %s %d %x\n", c.paths[w.left.index], w.operator, w.right.kind, w.right.text)
	}
	return h.Sum64()
}
