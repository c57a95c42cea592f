package console

import (
	"cmp"
	"net/url"
	"time"

	"signalbox/broker/thresholds"
)

// brokerHealth is what the overview shows of the health of a broker besides its connection. What
// the broker does not report, and what the caller may not read, is left out.
type brokerHealth struct {
	listeners part[[]listenerRecord]
	longest   *part[topClients]     // of the embedded broker: of another one it takes the list of all clients
	disk      *part[diskSpace]      // of the service that the embedded broker is part of
	backups   *part[[]backupRecord] // of that service, too
}

// diskSpace is the response of getDisk.
type diskSpace struct {
	Free *int64 `json:"free"` // bytes, nil if they are not known
}

// loadEmbedded loads what is shown of the embedded broker only.
func (h *brokerHealth) loadEmbedded(g *parts, q *request) {
	h.longest = &part[topClients]{}
	load(g, q, h.longest, "topClients", url.Values{"by": {"queue"}, "count": {"1"}})
	if q.role() >= root {
		h.disk, h.backups = &part[diskSpace]{}, &part[[]backupRecord]{}
		load(g, q, h.disk, "getDisk", nil)
		load(g, q, h.backups, "listBackups", nil)
	}
}

// facts returns the lines, with the values of $SYS that the broker reported last.
func (h *brokerHealth) facts(q *request, sys sysSample) (facts []fact) {
	if end := h.firstExpiry(); end != 0 {
		c := q.validity(time.UnixMilli(end), time.Now())
		c.To = q.inBroker("listeners")
		facts = append(facts, fact{q.t("listeners.certificates"), c})
	}
	if h.disk != nil && h.disk.Value.Free != nil {
		c := q.freeSpace(*h.disk.Value.Free)
		c.To = "system"
		facts = append(facts, fact{q.t("overview.disk"), c})
	}
	if h.backups != nil && h.backups.Err == nil {
		facts = append(facts, fact{q.t("overview.backup"), q.lastBackup(h.backups.Value)})
	}
	if c, ok := h.queues(q, sys); ok {
		facts = append(facts, fact{q.t("overview.queues"), c})
	}
	return facts
}

// firstExpiry returns when the first certificate of the listeners expires, in epoch milliseconds,
// 0 if the broker reports none.
func (h *brokerHealth) firstExpiry() (first int64) {
	for _, l := range h.listeners.Value {
		for _, c := range l.Certs {
			if c.NotAfter != 0 && (first == 0 || c.NotAfter < first) {
				first = c.NotAfter
			}
		}
	}
	return first
}

// freeSpace returns the cell for the free bytes of a disk.
func (q *request) freeSpace(free int64) cell {
	c := cell{Text: q.t("overview.free", q.lang.bytes(free)), State: "good"}
	switch {
	case free <= thresholds.DiskCritical:
		c.State = "bad"
	case free <= thresholds.DiskWarning:
		c.State = "warn"
	}
	return c
}

// lastBackup returns the cell for the age of the newest verified backup.
func (q *request) lastBackup(all []backupRecord) cell {
	c := cell{Text: q.t("overview.no_backup"), State: "bad"}
	if i := newestVerified(all); i >= 0 {
		c = q.newestBackup(all[i])
		c.State = cmp.Or(c.State, "good")
	}
	c.To = "backups"
	return c
}

// queues returns the cell for the messages that wait for clients. The messages that a broker
// stores are these and the retained ones.
func (h *brokerHealth) queues(q *request, sys sysSample) (cell, bool) {
	stored, ok := sys.value("store/messages/count")
	retained, known := sys.value("retained messages/count")
	if !ok || !known {
		return cell{}, false
	}
	c := cell{Text: q.t("overview.queued", int64(max(stored-retained, 0))), To: q.inBroker("sessions", "by", "queue")}
	if h.longest == nil || h.longest.Err != nil {
		return c, true
	}
	c.State = "good"
	for _, longest := range h.longest.Value.Clients {
		c.Quiet = q.t("overview.longest_queue", longest.Queue)
		switch {
		case longest.Queue >= thresholds.QueueCritical:
			c.State = "bad"
		case longest.Queue >= thresholds.QueueWarning:
			c.State = "warn"
		}
	}
	return c, true
}
