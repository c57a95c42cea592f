package cli

import (
	"context"
	"errors"
	"io"
	"slices"

	"signalbox/router/client"
)

// sentLine is a line whose object is created.
type sentLine struct {
	number int
	name   string
	ended  chan struct{} // closed when err is known
	err    error
}

// all runs all lines until one fails or the command is interrupted. Some are sent at the same time,
// but the first alone: a file that is wrong as a whole changes nothing. Results are reported in the
// order of the lines, also of those that were sent before the failure of another was known.
func (r *lineRun) all(ctx context.Context, lines *objectLines) error {
	for most := 1; ; most = r.bulk.parallel {
		err := r.send(ctx, lines)
		for len(r.sent) >= most || err != nil && len(r.sent) > 0 {
			if failed := r.settle(ctx, r.sent[0]); failed != nil && (err == nil || errors.Is(err, io.EOF)) {
				err = failed
			}
			r.sent = r.sent[1:]
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// send begins to create the object of the next line that is not empty. It returns io.EOF after the
// last one.
func (r *lineRun) send(ctx context.Context, lines *objectLines) error {
	for {
		r.line++
		text, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return io.EOF
		case err != nil:
			return usage("line %d: %w", r.line, err)
		case ctx.Err() != nil:
			return ctx.Err()
		case len(text) > 0:
			r.create(ctx, text)
			return nil
		}
	}
}

// create begins to create the object of a line. Of lines with the same name the first one decides
// what is created.
func (r *lineRun) create(ctx context.Context, text []byte) {
	name, body, err := r.prepare(text)
	for _, before := range r.sent {
		if before.name == name {
			<-before.ended
		}
	}
	l := &sentLine{number: r.line, name: name, ended: make(chan struct{}), err: err}
	r.sent = append(r.sent, l)
	if err != nil || r.bulk.dryRun {
		close(l.ended)
		return
	}
	go func() {
		defer close(l.ended)
		bounded, cancel := context.WithTimeout(ctx, r.timeout)
		defer cancel()
		resp, err := r.session.Do(bounded, client.Request{Method: r.op.Method, Path: r.path, Body: body})
		if err == nil {
			err = resp.Body.Close()
		}
		l.err = err
	}()
}

// prepare returns the name of the object of a line and the body of its request.
func (r *lineRun) prepare(text []byte) (name string, body []byte, err error) {
	value, err := decodeJSON(text)
	if err != nil {
		return "", nil, UsageError{err}
	}
	if object, ok := value.(map[string]any); ok {
		name, _ = object[r.arguments[0].field.Name].(string)
	}
	if r.existing[name] {
		return name, nil, errExists
	}
	whole, err := r.compose(value)
	if err != nil {
		return name, nil, err
	}
	if r.bulk.dryRun {
		return name, nil, r.checkMembers(whole.(map[string]any))
	}
	body, err = encode(whole)
	return name, body, err
}

// errExists is the error for an object that is known to exist.
var errExists = errors.New("it exists")

// checkMembers refuses an object with a member that the operation does not have.
func (r *lineRun) checkMembers(object map[string]any) error {
	for name := range object {
		if !slices.ContainsFunc(r.bodyInputs(), func(in *input) bool { return in.field.Name == name }) {
			return usage("there is no member %q", name)
		}
	}
	return nil
}

// settle waits for the outcome of a line and reports it. Its error ends the run.
func (r *lineRun) settle(ctx context.Context, l *sentLine) error {
	<-l.ended
	err := l.err
	result := lineResult{Line: l.number, Name: l.name, Result: resultDone}
	answer, _ := errors.AsType[*client.Error](err)
	switch {
	case err == nil && r.bulk.dryRun:
		result.Result = resultValid
	case err == nil:
	case errors.Is(err, errExists), r.bulk.skip && answer != nil && answer.Code == "ALREADY_EXISTS":
		result.Result, err = resultExists, nil
	case ctx.Err() != nil && answer == nil:
		return ctx.Err() // the outcome of this line is not known; it is repeated
	default:
		result.Result, result.Message = resultFailed, err.Error()
		if answer != nil {
			result.Code, result.Message = answer.Code, answer.Message
		}
	}
	r.count(err)
	if reported := r.report(result); reported != nil {
		return reported
	}
	if r.bulk.goOn && !endsRun(err) {
		return nil
	}
	return err
}

// count counts a line that was done, or has failed with an error.
func (r *lineRun) count(err error) {
	if err == nil {
		r.done++
	} else if r.failed++; r.first == nil {
		r.first = err
	}
	r.progress.step(r.done, r.failed)
}

// endsRun reports whether further lines would fail in the same way.
func endsRun(err error) bool {
	return slices.Contains([]int{CodeDenied, CodeUnavailable, CodeTimeout}, ExitCode(err))
}
