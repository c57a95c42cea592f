package query

import "strings"

// Problem is a place in a query object, such as "select[1].function.name", and
// what is wrong with it, as the predicate of a sentence. The path of the object
// itself is empty.
type Problem struct {
	Path string
	Msg  string
}

// Problems are all that were found in a query, at least one, in the order of
// its members.
type Problems []Problem

// Error returns all problems in one line.
func (p Problems) Error() string {
	var b strings.Builder
	for i, problem := range p {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(problem.Path)
		if problem.Path != "" {
			b.WriteByte(' ')
		}
		b.WriteString(problem.Msg)
	}
	return b.String()
}
