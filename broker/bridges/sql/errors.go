package sql

import (
	"context"
	"errors"
	"fmt"

	"signalbox/broker/bridges/target"
)

// connectError explains why the connection failed, for errors that the database did not send itself.
func connectError(e *endpoint, err error) error {
	return target.Explain(err, fmt.Sprintf("cannot connect to the database at %s: %s", e.address(), target.Reason(err)))
}

// lostReason explains why an existing connection was lost.
func lostReason(err error) string {
	switch {
	case target.IsTimeout(err):
		return "the database did not answer in time"
	case errors.Is(err, context.Canceled):
		return "the work with the database was ended"
	}
	return "the connection to the database broke: " + target.Reason(err)
}
