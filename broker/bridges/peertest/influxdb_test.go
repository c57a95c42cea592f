package peertest

import "testing"

// TestInfluxDB checks that a killed server has what was written.
func TestInfluxDB(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]Option{"plain": nil, "TLS": {TLS()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := StartInfluxDB(t, opts...)
			s.Query(t, "CREATE DATABASE kept")
			s.Kill(t)
			s.Start(t)
			found := false
			for _, row := range s.Query(t, "SHOW DATABASES") {
				found = found || row[0] == "kept"
			}
			if !found {
				t.Error("the database was not kept")
			}
		})
	}
}
