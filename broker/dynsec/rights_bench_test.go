package dynsec

import (
	"fmt"
	"testing"

	"signalbox/broker"
)

// tenRoles returns the rights of a client with 10 roles of 100 ACLs each, whose topics
// the format makes from the numbers of role and ACL.
func tenRoles(format string) *Rights {
	roles := make([]*rules, 10)
	for i := range roles {
		r := broker.Role{AllowWildcardSubs: true}
		for j := range 100 {
			r.ACLs = append(r.ACLs, broker.ACL{ACLType: broker.PublishClientSend, Topic: fmt.Sprintf(format, i, j), Allow: true})
		}
		roles[i] = compileRules(r)
	}
	return newRights("user", roles, DefaultDefaults())
}

var benchmarkedRights = []struct {
	name, format, topic string
	allowed             bool
}{
	{"literal, in the last role", "plant/%d/machine/%d/state", "plant/9/machine/99/state", true},
	{"literal, in none", "plant/%d/machine/%d/state", "plant/10/machine/99/state", false},
	{"plus, in the last role", "plant/%d/machine/%d/+", "plant/9/machine/99/state", true},
	{"hash, in the last role", "plant/%d/machine/%d/#", "plant/9/machine/99/state/now", true},
	{"wildcards, in none", "plant/%d/+/%d/#", "plant/9/machine/100/state", false},
	{"client id, in the last role", "plant/%d/%d/%%c/#", "plant/9/99/device-7/state", true},
}

func BenchmarkAllowed(b *testing.B) {
	for _, bm := range benchmarkedRights {
		b.Run(bm.name, func(b *testing.B) {
			r := tenRoles(bm.format)
			b.ReportAllocs()
			for b.Loop() {
				if r.Allowed(PublishSend, "device-7", bm.topic) != bm.allowed {
					b.Fatal("wrong verdict")
				}
			}
		})
	}
}

func TestAllowedAllocatesNothing(t *testing.T) {
	for _, bm := range benchmarkedRights {
		r := tenRoles(bm.format)
		if n := testing.AllocsPerRun(100, func() { r.Allowed(PublishSend, "device-7", bm.topic) }); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", bm.name, n)
		}
	}
}
