package embedded

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/embedded/cluster"
)

// maintenance is the work beside the log that the data of the program need.
type maintenance struct {
	wake    chan struct{}         // holds one entry while there may be work
	calling sync.Mutex            // held during a call of Maintain
	outcome atomic.Pointer[error] // of the last call of Maintain since the data are shared; nil for none
}

// maintenanceInterval is how often Maintain is called, whether or not a change was reported.
const maintenanceInterval = time.Second

// errNotShared is the response of a node that does not share the data of the program.
var errNotShared = errors.New("this node does not share the data of the platform")

// maintainShared calls Maintain, while the data of the program are shared, until the broker closes.
func (m *member) maintainShared() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	m.broker.tasks.Go(func() {
		<-m.broker.life.closing
		cancel()
	})
	again := time.NewTicker(maintenanceInterval)
	defer again.Stop()
	for {
		select {
		case <-m.maintenance.wake:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		m.maintainOnce(ctx)
	}
}

// maintainOnce calls Maintain if this node is a member that has the data of the cluster.
func (m *member) maintainOnce(ctx context.Context) {
	m.maintenance.calling.Lock()
	defer m.maintenance.calling.Unlock()
	info, err := m.node.Info()
	if err != nil || info.SyncMode == "" || !info.Shared || !m.sharesData.Load() || m.isEntering() {
		return // it has no others to ask
	}
	if err := m.broker.config.Shared.Maintain(ctx, sharedMembers{m}); ctx.Err() == nil {
		m.noteMaintenance(err)
	}
}

// noteMaintenance stores the result of Maintain, and logs it if it is another one than before.
func (m *member) noteMaintenance(err error) {
	former := m.maintenance.outcome.Swap(&err)
	switch changed := former == nil || *former == nil || err == nil || (*former).Error() != err.Error(); {
	case err != nil && changed:
		m.broker.log.Warn("the data of the platform cannot all be used at this node", "error", err)
	case err == nil && former != nil && *former != nil:
		m.broker.log.Info("all data of the platform can be used at this node")
	}
}

// sharedWarning returns the error of the last call of Maintain.
func (m *member) sharedWarning() error {
	if err := m.maintenance.outcome.Load(); err != nil && m.sharesData.Load() {
		return *err
	}
	return nil
}

// isIncomplete reports whether Maintain has yet to succeed, so that the data of the program here are of no
// use without another node.
func (m *member) isIncomplete() bool {
	err := m.maintenance.outcome.Load()
	return m.sharesData.Load() && (err == nil || *err != nil)
}

// completeTimeout bounds how long the departure of members waits for what they lack.
const completeTimeout = 3 * time.Second

// completeLeaving has members, or all, that answer complete their data before they leave the cluster: no other
// node answers them afterwards.
func (m *member) completeLeaving(ctx context.Context, leaving ...cluster.NodeID) {
	if !m.sharesData.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	var asked sync.WaitGroup
	for _, n := range m.node.Status().Nodes {
		if n.Role == cluster.RoleVoter || n.Err != nil || len(leaving) > 0 && !slices.Contains(leaving, n.NodeID) {
			continue // a voter is complete
		}
		asked.Go(func() {
			if _, err := m.node.Ask(ctx, n.NodeID, []byte{askComplete}); err != nil {
				m.broker.log.Warn("it is not known whether a node that leaves the cluster has all of its data", "node", int(n.NodeID), "error", err)
			}
		})
	}
	asked.Wait()
}

// answerShared answers a request of another node about the data of the program.
func (m *member) answerShared(ctx context.Context, request []byte) ([]byte, error) {
	if m.broker.config.Shared == nil || !m.sharesData.Load() {
		return nil, errNotShared
	}
	return m.broker.config.Shared.Answer(ctx, sharedMembers{m}, request)
}

// sharedMembers is the SharedMembers of a node.
type sharedMembers struct{ *member }

// Leads implements SharedMembers.
func (s sharedMembers) Leads() bool { return s.node.IsLeader() }

// Removal implements SharedMembers.
func (s sharedMembers) Removal() uint64 { return s.node.LastRemoval() }

// Others implements SharedMembers.
func (s sharedMembers) Others() (voters, others []int, err error) {
	info, err := s.node.Info()
	if err != nil {
		return nil, nil, err
	}
	nodes := s.node.Status().Nodes
	if len(nodes) == 0 { // it has left the cluster meanwhile
		return nil, nil, cluster.ErrNotClustered
	}
	for _, n := range nodes {
		if n.NodeID == info.Self {
			continue
		}
		others = append(others, int(n.NodeID))
		if n.Role == cluster.RoleVoter {
			voters = append(voters, int(n.NodeID))
		}
	}
	return voters, others, nil
}

// Ask implements SharedMembers.
func (s sharedMembers) Ask(ctx context.Context, nodeID int, request []byte) ([]byte, error) {
	return s.node.Ask(ctx, cluster.NodeID(nodeID), withKind(askShared, request))
}
