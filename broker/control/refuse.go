package control

import (
	"encoding/json"

	"signalbox/broker/dynsec"
)

// Refuse returns the response to a request none of whose commands is executed, for one reason.
func Refuse(payload []byte, reason string) []byte {
	type response struct {
		Command string `json:"command"`
		Error   string `json:"error"`
	}
	all, _ := dynsec.DecodeCommands(payload)
	responses := make([]response, 0, len(all))
	for _, c := range all {
		responses = append(responses, response{c.Name, reason})
	}
	answer, err := json.Marshal(map[string]any{"responses": responses})
	if err != nil {
		return nil // text is always valid
	}
	return answer
}
