package brokertest

import (
	"testing"

	"signalbox/broker"
)

func loginCases() []testCase {
	return []testCase{
		{name: "the right password gets in, also a second time", run: rightPassword},
		{name: "a wrong, empty or missing password does not", run: wrongPassword},
		{name: "an unknown username does not", run: unknownUsername},
		{name: "a client without a password does not", run: noPassword},
		{name: "a disabled client does not, and does once it is enabled", run: disabledLogin},
		{name: "after a change only the new password gets in", run: changedPassword},
		{name: "a client that is given its first password gets in", run: firstPassword},
		{name: "a client bound to a client id gets in with that one only", run: boundClientID},
		{name: "a client that is no longer bound gets in with any", run: unboundClientID},
		{name: "a deleted client does not, and its successor has its own password", run: deletedLogin},
		{name: "a password of many bytes counts to the last one", run: longPassword},
	}
}

func rightPassword(t *testing.T, s *fixture) {
	username := s.client(t)
	s.login(t, username)
	s.login(t, username)
}

func wrongPassword(t *testing.T, s *fixture) {
	username := s.client(t)
	s.login(t, username) // a cached log-in must not accept the wrong one
	for _, wrong := range []broker.Secret{"wrong", "", password(username) + "x", password(username)[1:]} {
		s.wantRefused(t, identity{username: username, password: wrong})
	}
}

func unknownUsername(t *testing.T, s *fixture) {
	s.wantRefused(t, identity{username: "nobody", password: "any"})
	s.wantRefused(t, identity{username: "nobody"})
}

func noPassword(t *testing.T, s *fixture) {
	name := s.name("client")
	must(t, s.Broker.CreateClient(t.Context(), broker.ClientSpec{Username: name}))
	s.wantRefused(t, identity{username: name})
	s.wantRefused(t, identity{username: name, password: "any"})
}

func disabledLogin(t *testing.T, s *fixture) {
	username := s.client(t)
	s.login(t, username)
	must(t, s.Broker.DisableClient(t.Context(), username))
	s.wantRefused(t, identity{username: username, password: password(username)})
	s.wantRefused(t, identity{username: username, password: "wrong"})
	must(t, s.Broker.EnableClient(t.Context(), username))
	s.login(t, username)
}

func changedPassword(t *testing.T, s *fixture) {
	username := s.client(t)
	s.login(t, username)
	must(t, s.Broker.ModifyClient(t.Context(), broker.ClientSpec{Username: username, Password: new(broker.Secret("new"))}))
	s.wantRefused(t, identity{username: username, password: password(username)})
	if _, err := s.connect(t, identity{username: username, password: "new"}); err != nil {
		t.Fatalf("the new password is refused: %v", err)
	}
}

func firstPassword(t *testing.T, s *fixture) {
	name := s.name("client")
	must(t, s.Broker.CreateClient(t.Context(), broker.ClientSpec{Username: name}))
	must(t, s.Broker.ModifyClient(t.Context(), broker.ClientSpec{Username: name, Password: new(password(name))}))
	s.login(t, name)
}

func boundClientID(t *testing.T, s *fixture) {
	username := s.clientWith(t, broker.ClientSpec{ClientID: new("bound-1")})
	who := identity{username: username, password: password(username)}
	who.clientID = "bound-2"
	s.wantRefused(t, who)
	who.clientID = "bound-1"
	if _, err := s.connect(t, who); err != nil {
		t.Fatalf("the right client id is refused: %v", err)
	}
	who.clientID = "Bound-1"
	s.wantRefused(t, who)
}

func unboundClientID(t *testing.T, s *fixture) {
	username := s.clientWith(t, broker.ClientSpec{ClientID: new("bound-3")})
	must(t, s.Broker.ModifyClient(t.Context(), broker.ClientSpec{Username: username, ClientID: new("")}))
	s.login(t, username)
	must(t, s.Broker.ModifyClient(t.Context(), broker.ClientSpec{Username: username, ClientID: new("bound-4")}))
	s.wantRefused(t, identity{username: username, password: password(username)})
}

func deletedLogin(t *testing.T, s *fixture) {
	username := s.client(t)
	s.login(t, username)
	must(t, s.Broker.DeleteClient(t.Context(), username))
	s.wantRefused(t, identity{username: username, password: password(username)})
	must(t, s.Broker.CreateClient(t.Context(), broker.ClientSpec{Username: username, Password: new(broker.Secret("own"))}))
	s.wantRefused(t, identity{username: username, password: password(username)})
	if _, err := s.connect(t, identity{username: username, password: "own"}); err != nil {
		t.Fatalf("the successor's password is refused: %v", err)
	}
}

func longPassword(t *testing.T, s *fixture) {
	long := make([]byte, 500)
	for i := range long {
		long[i] = 'a' + byte(i%26)
	}
	username := s.name("client")
	must(t, s.Broker.CreateClient(t.Context(), broker.ClientSpec{Username: username, Password: new(broker.Secret(long))}))
	if _, err := s.connect(t, identity{username: username, password: broker.Secret(long)}); err != nil {
		t.Fatalf("the password is refused: %v", err)
	}
	s.wantRefused(t, identity{username: username, password: broker.Secret(long[:499])})
}
