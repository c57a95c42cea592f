package control

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/dynsec"
)

// What is recorded of requests: commands that change something, by their canonical names, without
// what may be a secret.
func TestChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ topic, commands, want string }{
		{dynsec.Topic, `{"command":"LISTroles"},{"command":"nonsense"},{"command":"DELETErole","rolename":"r","x":"secret"}`, `deleteRole map[rolename:r] at 2;`},
		{dynsec.Topic, `{"command":"createClient","username":"u","password":7}`, `createClient map[password:*** username:u] at 0;`},
		{HATopic, `{"command":"isLeader"},{"command":"SetLeader","nodeid":2,"key":"secret"}`, `setLeader map[nodeid:2] at 1;`},
		{BridgeTopic("http-bridge"), `{"command":"testConfig"},{"command":"updateConfig","configChange":{"topic":"secret"},"topic":7}`, `updateConfig map[bridgeid:http-bridge] at 1;`},
		{ClientControlTopic, `{"command":"disconnectClient","clientid":"c"}`, `disconnectClient map[clientid:c] at 0;`},
		{InspectTopic, `{"command":"getClient","clientid":"c"}`, ``},
		{dynsec.Topic, `7`, ``},
	} {
		list, at := Changes(c.topic, []byte(`{"commands":[`+c.commands+`]} rest`))
		got := ""
		for i, change := range list {
			got += fmt.Sprintf("%s %v at %d;", change.Name, change.Members, at[i])
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.topic, c.commands, diff)
		}
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	got := string(Refuse([]byte(`{"commands":[{"command":"a","correlationData":"7"},8]}`), "no"))
	if want := `{"responses":[{"command":"a","error":"no","correlationData":"7"},{"command":"Unknown command","error":"Command not an object"}]}`; got != want {
		t.Errorf("got %s", got)
	}
}
