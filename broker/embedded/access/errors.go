package access

import (
	"errors"

	"signalbox/broker"
	"signalbox/broker/embedded/schema"
	"signalbox/broker/storage"
)

// classify turns an error of the store into one with advice.
func classify(err error) error {
	if err == nil {
		return nil
	}
	return &broker.Error{Kind: broker.Internal, Msg: advice(err), Err: err}
}

func advice(err error) string {
	const undone = "; nothing was changed"
	what := storage.Advice(err, schema.Name)
	switch {
	case what == "":
		return "the change could not be stored" + undone
	case storage.Unflushed(err):
		return what
	}
	return what + undone
}

// withOp sets the operation of an error that has none.
func withOp(err error, op string) error {
	e, ok := errors.AsType[*broker.Error](err)
	if !ok || e.Op != "" {
		return err
	}
	n := *e
	n.Op = op
	return &n
}
