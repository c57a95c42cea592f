package apitest_test

import (
	"testing"

	"signalbox/router/apitest"
)

// workers is how many objects of a job are changed at a time.
const workers = 4

// TestJobEndsWithTheRightsOfItsCreator takes the rights away while a job runs: what was
// begun is completed, and nothing else is begun.
func TestJobEndsWithTheRightsOfItsCreator(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(t *testing.T, api *apitest.API, eve testUser, token string)
		code string
	}{
		"lowered to viewer": {func(_ *testing.T, api *apitest.API, eve testUser, _ string) {
			api.Root.Put(memberAt(api, eve.id), object{"role": "viewer"}).Want(204)
		}, "FORBIDDEN"},
		"removed": {func(_ *testing.T, api *apitest.API, eve testUser, _ string) {
			api.Root.Delete(memberAt(api, eve.id)).Want(204)
		}, "FORBIDDEN"},
		"deleted": {func(_ *testing.T, api *apitest.API, eve testUser, _ string) {
			api.Root.Delete("/api/users/" + eve.id).Want(204)
		}, "UNAUTHORIZED"},
		"not verified any more": {func(_ *testing.T, api *apitest.API, eve testUser, _ string) {
			api.Root.Put("/api/users/"+eve.id, object{"verified": false}).Want(204)
		}, "UNAUTHORIZED"},
		"token revoked": {func(_ *testing.T, api *apitest.API, _ testUser, token string) {
			api.Root.Delete(tokensAt(api, "/"+token)).Want(200)
		}, "UNAUTHORIZED"},
		"token's owner lowered": {func(_ *testing.T, api *apitest.API, eve testUser, _ string) {
			api.Root.Put(memberAt(api, eve.id), object{"role": "viewer"}).Want(204)
		}, "FORBIDDEN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := apitest.New(t)
			names := meters(api, 10)
			eve := addTestUser(t, api, "eve")
			api.Root.Put(memberAt(api, eve.id), object{"role": "admin"}).Want(204)
			caller, made := createToken(t, api, eve.Caller, nil)
			if name[:5] != "token" {
				caller = eve.Caller
			}
			g := gated(api, api.Embedded)
			id := createJob(caller, api, object{"action": "disableClients", "ids": names}).ID
			for range workers {
				<-g.begun
			}
			c.end(t, api, eve, made.ID)
			close(g.gate)
			got := endOf(t, api, api.Embedded, id)
			wantJob(t, got, "failed", 10, workers, 0)
			if got.Error == nil || got.Error.Code != c.code || got.Error.Message == "" {
				t.Errorf("error %+v, want %s", got.Error, c.code)
			}
			wantDisabled(t, api, workers, 10)
		})
	}
}

// TestJobOutlivesTheSession logs the creator out: the session was only how it called.
func TestJobOutlivesTheSession(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	names := meters(api, 10)
	eve := addTestUser(t, api, "eve")
	api.Root.Put(memberAt(api, eve.id), object{"role": "editor"}).Want(204)
	g := gated(api, api.Embedded)
	id := createJob(eve.Caller, api, object{"action": "disableClients", "ids": names}).ID
	<-g.begun
	eve.Post("/api/auth/logout", nil).Want(204)
	close(g.gate)
	wantJob(t, endOf(t, api, api.Embedded, id), "completed", 10, 10, 0)
}

func TestJobIsCancelled(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	names := meters(api, 10)
	g := gated(api, api.Embedded)
	id := createJob(api.Root, api, object{"action": "disableClients", "ids": names}).ID
	for range workers {
		<-g.begun
	}
	api.Root.Delete(api.At("/jobs/" + id)).Want(204)
	if got := jobOf(api, api.Embedded, id); got.State != "stopping" || !got.EndedAt.IsZero() {
		t.Errorf("got %+v, want it stopping", got)
	}
	close(g.gate)
	wantJob(t, endOf(t, api, api.Embedded, id), "cancelled", 10, workers, 0)
	wantDisabled(t, api, workers, 10)
}

// TestJobsOfABrokerAreBounded starts more jobs than run at a time.
func TestJobsOfABrokerAreBounded(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	meters(api, 1)
	g := gated(api, api.Embedded)
	body := object{"action": "disableClients", "ids": []string{"meter-00"}}
	first, second := createJob(api.Root, api, body).ID, createJob(api.Root, api, body).ID
	api.Root.Post(api.At("/jobs"), body).WantError(400, "CONFLICT")
	body["dry_run"] = true
	createJob(api.Root, api, body)
	close(g.gate)
	for _, id := range []string{first, second} {
		wantJob(t, endOf(t, api, api.Embedded, id), "completed", 1, 1, 0)
	}
	body["dry_run"] = false
	endOf(t, api, api.Embedded, createJob(api.Root, api, body).ID)
}

// TestJobEndsWithTheConnection changes and deletes the broker connection meanwhile.
func TestJobEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	names := meters(api, 10)
	id := addBroker(t, api, object{"name": "alias", "url": "mqtt://127.0.0.1:1"})
	g := gated(api, id)
	var made struct{ ID string }
	api.Root.Post(api.BrokerAt(id, "/jobs"), object{"action": "disableClients", "ids": names}).Want(200).Decode(&made)
	for range workers {
		<-g.begun
	}
	api.Root.Put(api.BrokerAt(id, ""), object{"url": "mqtt://127.0.0.1:2"}).Want(204)
	close(g.gate)
	got := endOf(t, api, id, made.ID)
	wantJob(t, got, "failed", 10, workers, 0)
	if got.Error == nil || got.Error.Code != "CONFLICT" {
		t.Errorf("error %+v", got.Error)
	}
}
