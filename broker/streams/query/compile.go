package query

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
)

// maxSelects is how much a query may select.
const maxSelects = 256

// Compile compiles a query object. Nothing, null and an object without members
// are the empty query. Member names are read regardless of case, unknown ones
// are ignored. The error is Problems.
func Compile(raw []byte) (*Query, error) { return compileQuery(raw, false) }

// CompileStrict is Compile for a query that is new: an unknown member is a problem.
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

// compiler builds a query while it reads it, and goes on after a problem.
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
		c.condition("where[0]", one)
	}
}

// selection compiles an element of select.
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

// value compiles what is selected.
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
		return c.aggregate(lowest, c.source(at+".source", source))
	case "max":
		return c.aggregate(highest, c.source(at+".source", source))
	case "sum":
		return c.aggregate(adding, c.source(at+".source", source))
	case "count":
		return c.aggregate(counting, 0)
	case "time_bucket":
		return c.bucket(at+".function", f.IntervalSize, f.IntervalOffset)
	}
	c.refuse(at+".function.name", "must be min, max, sum, count or time_bucket")
	return operand{}
}

func (c *compiler) plain(at string, source json.RawMessage) operand {
	slot := c.source(at, source)
	c.q.required = append(c.q.required, slot)
	return operand{member, slot}
}

// source gives the slot of a source's value. A source must be given, so that
// one that was forgotten is not taken for the whole document.
func (c *compiler) source(at string, raw json.RawMessage) (slot int) {
	path, given := c.path(at, raw)
	if !given && isAbsent(raw) {
		c.refuse(at, "is required")
	}
	return c.slot(path)
}

func (c *compiler) slot(path []string) (slot int) {
	slot = c.q.sources.want(path, c.q.slots)
	if slot == c.q.slots {
		c.q.slots++
		c.paths = append(c.paths, path)
	}
	return slot
}

func (c *compiler) aggregate(f function, slot int) operand {
	c.q.aggregates = append(c.q.aggregates, aggregate{f, slot})
	value := operand{index: len(c.q.aggregates) - 1}
	switch f {
	case counting:
		value.kind = messages
	case adding:
		value.kind = total
	default:
		value.kind = extreme
	}
	return value
}

// bucket compiles time_bucket.
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

// alias gives a selected value its name.
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

// fingerprint tells queries apart whose aggregates are not the same: by what they
// compute, of which messages, and in which buckets. Where the results go does
// not matter. It must not change with our versions, nor Go's.
func (c *compiler) fingerprint() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d\n", c.q.bucket.size, c.q.bucket.offset)
	for _, a := range c.q.aggregates {
		fmt.Fprintf(h, "%d", a.function)
		if a.function != counting {
			fmt.Fprintf(h, " %x", c.paths[a.slot])
		}
		fmt.Fprintln(h)
	}
	if w := c.q.where; w.onMessage() {
		fmt.Fprintf(h, "%x %s %d %x\n", c.paths[w.left.index], w.operator, w.right.kind, w.right.text)
	}
	return h.Sum64()
}
