package packet

import "testing"

// full is a PUBLISH with properties of all encodings, the expiry between others.
var full = pkt(0x32, "building/7/temperature", id7, props(b(1, 1), b(2, 0, 0, 0, 60), b(3), "application/json", user, b(0x23, 0, 1)), body(`{"value":21.5}`))

// plain is a PUBLISH as most are.
var plain = pkt(0x32, "building/7/temperature", id7, props(), body(`{"value":21.5}`))

// TestNoAllocation checks that message paths do not allocate.
func TestNoAllocation(t *testing.T) { // not parallel, because allocations of all goroutines count
	var into Publish
	buf := make([]byte, 0, 4096)
	o := Outgoing{Topic: "building/7/temperature", Payload: body("21.5"), Properties: user, QoS: 1, PacketID: 7, HasExpiry: true, Expiry: 60,
		SubscriptionIDs: []uint32{1, 300}, Alias: 2}
	ack, ping, long := pkt(0x40, id7), pkt(0xc0), pkt(0x62, id7, b(0x92), props(b(0x1f), "reason"))
	for name, run := range map[string]func() error{
		"DecodePublish plain": func() error { return DecodePublish(plain, V5, &into) },
		"DecodePublish full":  func() error { return DecodePublish(full, V5, &into) },
		"DecodePublish bad":   func() error { return nilOf(DecodePublish(plain[:9], V5, &into)) },
		"DecodeAck":           func() error { _, err := DecodeAck(ack, V5); return err },
		"DecodeAck long":      func() error { _, err := DecodeAck(long, V5); return err },
		"Size":                func() error { _, err := Size(full); return err },
		"DecodePingreq":       func() error { return DecodePingreq(ping) },
		"AppendPublish":       func() error { buf = AppendPublish(buf[:0], V5, &o); return nil },
		"PublishSize":         func() error { PublishSize(V5, &o); return nil },
		"AppendAck":           func() error { buf = AppendAck(buf[:0], V5, TypePubrec, 7, 0x97, "quota"); return nil },
		"AppendSuback":        func() error { buf = AppendSuback(buf[:0], V5, 7, user); return nil },
		"AppendConnack":       func() error { buf = AppendConnack(buf[:0], V5, &Connack{ReceiveMaximum: 20}); return nil },
		"AppendDisconnect":    func() error { buf = AppendDisconnect(buf[:0], 0x8e, "taken over"); return nil },
		"ValidFilter":         func() error { ValidFilter("$share/group/building/+/temperature/é/#"); return nil },
	} {
		if err := run(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := testing.AllocsPerRun(100, func() { run() }); n != 0 {
			t.Errorf("%s: got %v allocations, want none", name, n)
		}
	}
}

// nilOf turns an error that is wanted into none.
func nilOf(err error) error {
	if err == nil {
		return errTruncated
	}
	return nil
}

func BenchmarkDecodePublish(bm *testing.B) {
	for name, p := range map[string][]byte{"plain": plain, "full": full} {
		bm.Run(name, func(bm *testing.B) {
			bm.ReportAllocs()
			var into Publish
			for bm.Loop() {
				if err := DecodePublish(p, V5, &into); err != nil {
					bm.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendPublish(bm *testing.B) {
	o := Outgoing{Topic: "building/7/temperature", Payload: make([]byte, 64), QoS: 1, PacketID: 7}
	for name, version := range map[string]byte{"3.1.1": V311, "5": V5} {
		bm.Run(name, func(bm *testing.B) {
			bm.ReportAllocs()
			buf := make([]byte, 0, 256)
			for bm.Loop() {
				buf = AppendPublish(buf[:0], version, &o)
			}
		})
	}
}

func BenchmarkDecodeAck(bm *testing.B) {
	bm.ReportAllocs()
	p := pkt(0x40, id7)
	for bm.Loop() {
		if _, err := DecodeAck(p, V5); err != nil {
			bm.Fatal(err)
		}
	}
}
