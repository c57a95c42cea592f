package systemtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"signalbox/broker/dynsec"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/scripts/suite"
)

// accessAPI changes the access control. Its methods report whether the change was
// acknowledged; false is the result when the service is killed.
type accessAPI interface {
	create(client object) bool
	remove(username string) bool
	modifyRole(role object) bool
}

// wantClient is the client that a writer creates with this name.
func wantClient(prefix, name string) object {
	return object{"username": name, "clientid": name + "-id", "textname": "made by " + name,
		"roles": []object{{"rolename": prefix}}, "groups": []object{{"groupname": prefix}}}
}

// wantRole is a writer's own role at a revision.
func wantRole(name string, revision int) object {
	acls := make([]object, 5)
	for i := range acls {
		acls[i] = object{"acltype": "publishClientSend", "topic": fmt.Sprintf("%s/%d/%d", name, revision, i), "priority": 9 - i, "allow": true}
	}
	return object{"rolename": name, "textname": strconv.Itoa(revision), "acls": acls}
}

func passwordOf(name string) string { return "password of " + name }

// work creates clients with a role and a group, deletes every third, and revises a role
// of its own, until the service has ended.
func work(l *expectedState, d accessAPI, prefix, writer string) {
	role := prefix + "-" + writer
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s-%03d", role, i)
		client := wantClient(prefix, name)
		client["password"] = passwordOf(name)
		l.pending(name)
		if !d.create(client) {
			return
		}
		l.acknowledge(name, created)
		if !d.modifyRole(wantRole(role, i)) {
			return
		}
		l.revised(role, i)
		if i%3 != 0 {
			continue
		}
		l.pending(name)
		if !d.remove(name) {
			return
		}
		l.acknowledge(name, deleted)
	}
}

// httpAPI is the HTTP API.
type httpAPI struct {
	t   testing.TB
	ctx context.Context
	*caller
}

func (d httpAPI) create(client object) bool   { return d.send("POST", d.at("/clients"), client) }
func (d httpAPI) modifyRole(role object) bool { return d.send("PUT", d.at("/roles"), role) }
func (d httpAPI) remove(username string) bool {
	return d.send("DELETE", d.at("/clients?username="+username), nil)
}

func (d httpAPI) send(method, path string, body any) bool {
	status, answer, err := d.do(d.ctx, method, path, body)
	if err == nil && status != 204 {
		d.t.Errorf("%s %s: %d %s", method, path, status, answer)
	}
	return err == nil
}

// projects creates projects, which are in another database, until the service has
// ended.
func (d httpAPI) projects(l *expectedState, prefix string) {
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s-project-%03d", prefix, i)
		l.pending(name)
		status, answer, err := d.do(d.ctx, "POST", "/api/projects", object{"name": name})
		if err != nil {
			return
		}
		if status != 200 {
			d.t.Errorf("create project: %d %s", status, answer)
		}
		l.acknowledge(name, created)
	}
}

// controlAPI is $CONTROL, over MQTT.
type controlAPI struct {
	t       testing.TB
	name    string // prefix of the correlation data
	sent    int
	device  *mqtttest.Paho
	answers chan response // at most one: there is one command at a time
}

// response is an answer to a command.
type response struct{ Command, CorrelationData, Error string }

func newControlAPI(t testing.TB, p *service, name string) *controlAPI {
	t.Helper()
	d := &controlAPI{t: t, name: name, device: mqtttest.Join(t, p.MQTT, mqttAdmin, mqttPassword), answers: make(chan response, 1)}
	mqtttest.Acknowledged(t, d.device.Subscribe(dynsec.ResponseTopic, 1, func(_ mqtt.Client, m mqtt.Message) { d.take(m.Payload()) }))
	return d
}

// take processes the responses to this client's commands; every client receives all.
func (d *controlAPI) take(payload []byte) {
	var got struct{ Responses []response }
	if err := json.Unmarshal(payload, &got); err != nil || len(got.Responses) != 1 {
		d.t.Errorf("answer %s: %v", payload, err)
		return
	}
	if strings.HasPrefix(got.Responses[0].CorrelationData, d.name+" ") {
		d.answers <- got.Responses[0]
	}
}

func (d *controlAPI) create(client object) bool   { return d.send("createClient", client) }
func (d *controlAPI) modifyRole(role object) bool { return d.send("modifyRole", role) }
func (d *controlAPI) remove(username string) bool {
	return d.send("deleteClient", object{"username": username})
}

// send sends one command and waits for its response.
func (d *controlAPI) send(command string, members object) bool {
	d.sent++
	want := response{Command: command, CorrelationData: fmt.Sprintf("%s %d", d.name, d.sent)}
	body := object{"command": command, "correlationData": want.CorrelationData}
	maps.Copy(body, members)
	payload, err := json.Marshal(object{"commands": []object{body}})
	if err != nil {
		d.t.Error(err)
		return false
	}
	d.device.Publish(dynsec.Topic, 1, false, payload)
	select {
	case got := <-d.answers:
		if got != want {
			d.t.Errorf("answer: got %+v, want %+v", got, want)
		}
		return true
	case <-d.device.Lost:
		return false
	case <-time.After(suite.HangLimit):
		d.t.Errorf("%s is not answered", command)
		return false
	}
}
