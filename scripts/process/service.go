package process

import (
	"os/exec"
	"strings"
)

// Service is one run of "signalbox serve".
type Service struct {
	*Process

	// What the program prints when it is ready. The addresses are host:port, "" where
	// there is no such listener.
	API       string // URL
	MQTT      string
	WebSocket string
}

// Serve starts the program with cmd, without waiting until it is ready.
func Serve(cmd *exec.Cmd) (*Service, error) {
	s := &Service{}
	var err error
	s.Process, err = Start(cmd, s.greet)
	return s, err
}

// greet reads a line of the greeting and reports whether it is the last one.
func (s *Service) greet(line string) bool {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return false
	}
	scheme, address, _ := strings.Cut(fields[1], "://")
	switch {
	case fields[0] == "API":
		s.API = fields[1]
	case fields[0] == "MQTT" && scheme == "mqtt" && s.MQTT == "":
		s.MQTT = address
	case fields[0] == "MQTT" && scheme == "ws" && s.WebSocket == "":
		s.WebSocket = address
	}
	return fields[0] == "data"
}
