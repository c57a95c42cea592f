package sql

import (
	"context"
	"errors"
	"fmt"

	"signalbox/broker/bridges/reach"
)

// unreached explains why the connection failed, for errors that the database did not send itself.
func unreached(e *endpoint, err error) error {
	return reach.Explained(err, fmt.Sprintf("cannot connect to the database at %s: %s", e.address(), reach.Cause(err)))
}

// broken explains why an existing connection was lost.
func broken(err error) string {
	switch {
	case reach.IsSilence(err):
		return "the database did not answer in time"
	case errors.Is(err, context.Canceled):
		return "the work with the database was ended"
	}
	return "the connection to the database broke: " + reach.Cause(err)
}
