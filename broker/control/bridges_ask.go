package control

import (
	"encoding/json"

	"signalbox/broker"
)

// bridgeAsk are the members of commands about bridges that no others have.
type bridgeAsk struct {
	ConfigChange   json.RawMessage `json:"configChange,omitempty"`
	Config         json.RawMessage `json:"config,omitempty"`
	ConnectionName string          `json:"connectionName,omitempty"`
	IDs            []string        `json:"ids,omitempty"`
}

// GetBridgeConfig makes the command getConfig; its data is any object.
func GetBridgeConfig() Command { return Bare(opGetBridgeConfig) }

// UpdateBridgeConfig makes the command updateConfig.
func UpdateBridgeConfig(config json.RawMessage) Command {
	return Command{Name: opUpdateBridgeConfig, bridgeAsk: &bridgeAsk{ConfigChange: config}}
}

// GetBridgeStatus makes the command getStatus, which is answered with a
// [BridgeStatusList].
func GetBridgeStatus() Command { return Bare(opGetBridgeStatus) }

// GetBridgeSchema makes the command getConfigSchema; its data is any object.
func GetBridgeSchema() Command { return Bare(opGetBridgeSchema) }

// TestBridge makes the command testConfig, which is answered with a
// [BridgeTestList].
func TestBridge(config json.RawMessage) Command {
	return Command{Name: opTestBridge, bridgeAsk: &bridgeAsk{Config: config}}
}

// ListDeadLetters makes the command for count dead letters from offset on, which
// is answered with a [DeadLetterList]; a count of -1 means all.
func ListDeadLetters(connectionName string, offset, count int) Command {
	return Command{Name: opListDeadLetters, Count: &count, Offset: offset, bridgeAsk: &bridgeAsk{ConnectionName: connectionName}}
}

// RetryDeadLetters makes the command of this name, which is answered with a
// [DeadLetterCount].
func RetryDeadLetters(connectionName string, ids []string) Command {
	return Command{Name: opRetryDeadLetters, bridgeAsk: &bridgeAsk{ConnectionName: connectionName, IDs: ids}}
}

// DeleteDeadLetters makes the command of this name, which is answered with a
// [DeadLetterCount].
func DeleteDeadLetters(connectionName string, ids []string) Command {
	return Command{Name: opDeleteDeadLetters, bridgeAsk: &bridgeAsk{ConnectionName: connectionName, IDs: ids}}
}

// BridgeStatusList is what getStatus answers, as it is read.
type BridgeStatusList []broker.BridgeStatus

// UnmarshalJSON takes the list. What is odd in one entry does not change the
// others.
func (l *BridgeStatusList) UnmarshalJSON(b []byte) error {
	return readEntries(b, (*[]broker.BridgeStatus)(l))
}

// BridgeTestList is what testConfig answers, as it is read.
type BridgeTestList []broker.BridgeTest

// UnmarshalJSON takes the list; see BridgeStatusList.
func (l *BridgeTestList) UnmarshalJSON(b []byte) error {
	return readEntries(b, (*[]broker.BridgeTest)(l))
}

func readEntries[T any](b []byte, into *[]T) error {
	var entries []json.RawMessage
	if err := json.Unmarshal(b, &entries); err != nil {
		return err
	}
	*into = make([]T, len(entries))
	for i, raw := range entries {
		if err := tolerant(raw, &(*into)[i]); err != nil {
			return err
		}
	}
	return nil
}

// DeadLetterList is what listDeadLetters answers, as it is read.
type DeadLetterList struct {
	Total       int                 `json:"totalCount"`
	DeadLetters []broker.DeadLetter `json:"deadLetters"`
}

// DeadLetterCount is what retryDeadLetters and deleteDeadLetters answer.
type DeadLetterCount struct {
	Count int `json:"count"`
}
