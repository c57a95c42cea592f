package control

import (
	"encoding/json"

	"signalbox/broker"
)

// bridgeArgs are the members that only commands about bridges have.
type bridgeArgs struct {
	ConfigChange   json.RawMessage `json:"configChange,omitempty"`
	Config         json.RawMessage `json:"config,omitempty"`
	ConnectionName string          `json:"connectionName,omitempty"`
	IDs            []string        `json:"ids,omitempty"`
}

// GetBridgeConfig returns the command getConfig; its data is any object.
func GetBridgeConfig() Command { return Bare(opGetBridgeConfig) }

// UpdateBridgeConfig returns the command updateConfig.
func UpdateBridgeConfig(config json.RawMessage) Command {
	return Command{Name: opUpdateBridgeConfig, bridgeArgs: &bridgeArgs{ConfigChange: config}}
}

// GetBridgeStatus returns the command getStatus. The response is a [BridgeStatusList].
func GetBridgeStatus() Command { return Bare(opGetBridgeStatus) }

// GetBridgeSchema returns the command getConfigSchema; its data is any object.
func GetBridgeSchema() Command { return Bare(opGetBridgeSchema) }

// TestBridge returns the command testConfig. The response is a [BridgeTestList].
func TestBridge(config json.RawMessage) Command {
	return Command{Name: opTestBridge, bridgeArgs: &bridgeArgs{Config: config}}
}

// ListDeadLetters returns the command for count dead letters from offset on; a count of
// -1 means all. The response is a [DeadLetterList].
func ListDeadLetters(connectionName string, offset, count int) Command {
	return Command{Name: opListDeadLetters, Count: &count, Offset: offset, bridgeArgs: &bridgeArgs{ConnectionName: connectionName}}
}

// RetryDeadLetters returns the command of this name. The response is a [DeadLetterCount].
func RetryDeadLetters(connectionName string, ids []string) Command {
	return Command{Name: opRetryDeadLetters, bridgeArgs: &bridgeArgs{ConnectionName: connectionName, IDs: ids}}
}

// DeleteDeadLetters returns the command of this name. The response is a
// [DeadLetterCount].
func DeleteDeadLetters(connectionName string, ids []string) Command {
	return Command{Name: opDeleteDeadLetters, bridgeArgs: &bridgeArgs{ConnectionName: connectionName, IDs: ids}}
}

// BridgeStatusList is the decoded response to getStatus.
type BridgeStatusList []broker.BridgeStatus

// UnmarshalJSON decodes the list. A fault in one entry does not affect the others.
func (l *BridgeStatusList) UnmarshalJSON(b []byte) error {
	return readEntries(b, (*[]broker.BridgeStatus)(l))
}

// BridgeTestList is the decoded response to testConfig.
type BridgeTestList []broker.BridgeTest

// UnmarshalJSON decodes the list; see BridgeStatusList.
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
		if err := decodeTolerant(raw, &(*into)[i]); err != nil {
			return err
		}
	}
	return nil
}

// DeadLetterList is the decoded response to listDeadLetters.
type DeadLetterList struct {
	Total       int                 `json:"totalCount"`
	DeadLetters []broker.DeadLetter `json:"deadLetters"`
}

// DeadLetterCount is the decoded response to retryDeadLetters and deleteDeadLetters.
type DeadLetterCount struct {
	Count int `json:"count"`
}
