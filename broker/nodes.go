package broker

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// AskNodes calls ask for all nodes concurrently and returns the results in the order of
// the nodes. If any fail, the error names each of these, and has the first one's kind.
func AskNodes[T any](op string, nodes []int, ask func(nodeID int) (T, error)) ([]T, error) {
	answers, errs := onNodes(nodes, ask)
	if err := nodesError(op, nodes, errs); err != nil {
		if slices.Contains(errs, nil) {
			err.Msg += "; the other nodes can be asked one by one, by nodeid"
		}
		return nil, err
	}
	return answers, nil
}

// SetNodes changes something of all nodes concurrently, but only after all of them were
// ready. If it then fails for some, the error names those that were changed.
func SetNodes(op string, nodes []int, ready, set func(nodeID int) error) error {
	_, errs := onNodes(nodes, func(id int) (struct{}, error) { return struct{}{}, ready(id) })
	if err := nodesError(op, nodes, errs); err != nil {
		err.Msg += "; nothing was changed"
		return err
	}
	_, errs = onNodes(nodes, func(id int) (struct{}, error) { return struct{}{}, set(id) })
	err := nodesError(op, nodes, errs)
	if err == nil {
		return nil
	}
	if done := succeeded(nodes, errs); done != "" {
		err.Kind = Unconfirmed
		err.Msg += "; it was changed at " + done + " only: repeat it"
	}
	return err
}

// onNodes calls do for all nodes concurrently.
func onNodes[T any](nodes []int, do func(nodeID int) (T, error)) (answers []T, errs []error) {
	answers, errs = make([]T, len(nodes)), make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, id := range nodes {
		wg.Go(func() { answers[i], errs[i] = do(id) })
	}
	wg.Wait()
	return answers, errs
}

// nodesError combines the errors of nodes; nil if there are none.
func nodesError(op string, nodes []int, errs []error) *Error {
	var all *Error
	for i, err := range errs {
		if err == nil {
			continue
		}
		cause := &Error{Kind: KindOf(err), Msg: "it could not be asked"}
		if e, ok := errors.AsType[*Error](err); ok {
			cause = e
		}
		msg := nodeName(nodes[i]) + ": " + cause.Msg
		if all == nil {
			all = &Error{Kind: cause.Kind, Op: op, Feature: cause.Feature, Msg: msg, Err: err}
			continue
		}
		all.Msg, all.Err = all.Msg+"; "+msg, errors.Join(all.Err, err)
	}
	return all
}

// succeeded returns the names of the nodes without an error.
func succeeded(nodes []int, errs []error) string {
	var names []string
	for i, err := range errs {
		if err == nil {
			names = append(names, nodeName(nodes[i]))
		}
	}
	return strings.Join(names, ", ")
}

func nodeName(id int) string { return "node " + strconv.Itoa(id) }

// OneNode calls do for one of the nodes of an HP cluster. The error names it; it is
// NotFound if there is no such node.
func OneNode[T any](op string, nodes []int, id int, do func(nodeID int) (T, error)) (answer T, err error) {
	switch {
	case len(nodes) == 0:
		return answer, &Error{Kind: NotFound, Op: op, Msg: "the broker is no node of an HP cluster; leave nodeid out"}
	case !slices.Contains(nodes, id):
		return answer, &Error{Kind: NotFound, Op: op, Msg: "the cluster has no " + nodeName(id)}
	}
	answer, err = do(id)
	if err != nil {
		return answer, nodesError(op, []int{id}, []error{err})
	}
	return answer, nil
}
