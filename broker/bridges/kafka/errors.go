package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// isFault tells whether a batch is not taken for what is in it.
func isFault(err error) bool {
	for _, e := range []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.CorruptMessage} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// fault says why a message is not taken.
func fault(err error, topic string) string {
	switch {
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return fmt.Sprintf("the message is larger than the topic %q takes, or than the option maxMessageBytes lets pass", topic)
	case errors.Is(err, kerr.InvalidTopicException):
		return fmt.Sprintf("the topic %q is not for clients to produce to", topic)
	}
	return fmt.Sprintf("the topic %q does not take the message: %v", topic, err)
}

// isTopicTrouble tells whether a topic takes nothing at present, while others may.
func isTopicTrouble(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.TopicAuthorizationFailed)
}

// topicTrouble says why a topic takes nothing.
func topicTrouble(err error, topic string) error {
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return sentence(err, fmt.Sprintf("the user may not write to the topic %q: allow it at the cluster, or change the target", topic))
	case errors.Is(err, kerr.InvalidTopicException):
		return sentence(err, fault(err, topic))
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return sentence(err, fmt.Sprintf("there is no topic %q: create it, or set the option createTopics where the cluster lets clients do so", topic))
	}
	return err
}

// explain makes a sentence of an error. Last is why a broker was not reached, if
// one was not; login tells whether the client says who it is.
func explain(err, last error, login bool) error {
	var done *explained
	var untrusted *tls.CertificateVerificationError
	var mute *kgo.ErrFirstReadEOF
	switch {
	case errors.As(err, &done):
		return err
	case errors.As(err, &untrusted), errors.As(last, &untrusted):
		return sentence(err, "a broker's certificate is not to be trusted: "+untrusted.Err.Error()+"; check the members of tls")
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(last, kerr.SaslAuthenticationFailed):
		return sentence(err, "the cluster does not let this client in: check the user name, the password and the mechanism")
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(last, kerr.UnsupportedSaslMechanism):
		return sentence(err, "the cluster does not offer this SASL mechanism: choose another")
	case errors.Is(err, kerr.ClusterAuthorizationFailed), errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		return sentence(err, "the user may not produce idempotently: allow IDEMPOTENT_WRITE at the cluster, or set the option idempotent to false")
	case login && (errors.Is(err, io.EOF) || errors.Is(last, io.EOF)):
		return sentence(err, "a broker ended the connection while the client logged in: check the user name, the password and the mechanism, and whether it expects TLS")
	case errors.As(err, &mute), errors.As(last, &mute), last != nil && errors.Is(last, io.EOF):
		return sentence(err, "a broker ended the connection at once: check whether it expects TLS, or SASL")
	case last != nil && !isSilence(last):
		return fmt.Errorf("no broker can be reached: %w", last)
	case isSilence(err), last != nil:
		return sentence(err, "the cluster did not answer in time: check whether it runs, the addresses, and whether it expects TLS")
	case errors.Is(err, kgo.ErrClientClosed):
		return sentence(err, "the connection to the cluster was closed")
	}
	return fmt.Errorf("the cluster does not take messages: %w", err)
}

// isSilence tells whether an error is only that something took too long, or was cut
// off for that.
func isSilence(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed)
}

// explained is an error whose sentence is ours.
type explained struct {
	sentence string
	cause    error
}

func sentence(cause error, text string) error { return &explained{text, cause} }

func (e *explained) Error() string { return e.sentence }
func (e *explained) Unwrap() error { return e.cause }
