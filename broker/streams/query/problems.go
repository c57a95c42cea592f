package query

import "strings"

// Problem is a place in a query object, as in "select[1].function.name", and
// what is wrong there, as what follows its name in a sentence. The path of the
// object itself is empty.
type Problem struct {
	Path string
	Msg  string
}

// Problems is all that is wrong with a query, at least one, in the order of its
// members.
type Problems []Problem

// Error gives all problems in one line.
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
