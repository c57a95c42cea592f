package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"signalbox/broker/bridges/reach"
)

// isFault reports whether a batch was refused because of its contents.
func isFault(err error) bool {
	for _, e := range []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.CorruptMessage} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// fault returns why a message was refused.
func fault(err error, topic string) string {
	switch {
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return fmt.Sprintf("the message is larger than the topic %q takes, or than the option maxMessageBytes lets pass", topic)
	case errors.Is(err, kerr.InvalidTopicException):
		return fmt.Sprintf("the topic %q is not for clients to produce to", topic)
	}
	return fmt.Sprintf("the topic %q does not take the message: %v", topic, err)
}

// isTopicTrouble reports whether a topic accepts nothing at present, while others may.
func isTopicTrouble(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.TopicAuthorizationFailed)
}

// topicTrouble explains why a topic accepts nothing.
func topicTrouble(err error, topic string) error {
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return reach.Explained(err, fmt.Sprintf("the user may not write to the topic %q: allow it at the cluster, or change the target", topic))
	case errors.Is(err, kerr.InvalidTopicException):
		return reach.Explained(err, fault(err, topic))
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return reach.Explained(err, fmt.Sprintf("there is no topic %q: create it, or set the option createTopics where the cluster lets clients do so", topic))
	}
	return err
}

// explain returns an error with a text for operators. Last is the error of the last failed
// connection, if any; login reports whether credentials are configured.
//
//revive:disable-next-line:cyclomatic // a flat list of cases, in the order in which they are tried
func explain(err, last error, login bool) error {
	var untrusted *tls.CertificateVerificationError
	var mute *kgo.ErrFirstReadEOF
	switch {
	case reach.IsExplained(err):
		return err
	case errors.As(err, &untrusted), errors.As(last, &untrusted):
		return reach.Explained(err, "no broker can be reached: "+reach.Cause(untrusted))
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(last, kerr.SaslAuthenticationFailed):
		return reach.Explained(err, "the cluster does not let this client in: check the user name, the password and the mechanism")
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(last, kerr.UnsupportedSaslMechanism):
		return reach.Explained(err, "the cluster does not offer this SASL mechanism: choose another")
	case errors.Is(err, kerr.ClusterAuthorizationFailed), errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		return reach.Explained(err, "the user may not produce idempotently: allow IDEMPOTENT_WRITE at the cluster, or set the option idempotent to false")
	case login && (errors.Is(err, io.EOF) || errors.Is(last, io.EOF)):
		return reach.Explained(err, "a broker ended the connection while the client logged in: check the user name, the password and the mechanism, and whether it expects TLS")
	case errors.As(err, &mute), errors.As(last, &mute), last != nil && errors.Is(last, io.EOF):
		return reach.Explained(err, "a broker ended the connection at once: check whether it expects TLS, or SASL")
	case last != nil && !isSilence(last):
		return reach.Explained(last, "no broker can be reached: "+reach.Cause(last))
	case isSilence(err), last != nil:
		return reach.Explained(err, "the cluster did not answer in time: check whether it runs, the addresses, and whether it expects TLS")
	case errors.Is(err, kgo.ErrClientClosed):
		return reach.Explained(err, "the connection to the cluster was closed")
	}
	if said, ok := errors.AsType[*kerr.Error](err); ok {
		return reach.Explained(err, "the cluster does not take messages: "+said.Error())
	}
	return reach.Explained(err, "the cluster does not take messages: "+reach.Cause(err))
}

// isSilence reports whether an error is a timeout, or the closing of a connection after a
// timeout.
func isSilence(err error) bool { return reach.IsSilence(err) || errors.Is(err, net.ErrClosed) }
