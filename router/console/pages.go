package console

import "slices"

// pages is the table of all pages. A page that is not in it does not exist.
func pages() []*page {
	return slices.Concat(
		sessionPages(),
		platformPages(),
		firstStepsPages(),
		userPages(),
		accountPages(),
		auditPages(),
		backupPages(),
		systemPages(),
		projectPages(),
		connectPages(),
		clusterPages(),
		clusterNodePages(),
		streamPages(),
		bridgePages(),
		accessPages(),
		brokerPages(),
		inspectPages(),
		jobPages(),
		topicPages(),
	)
}
