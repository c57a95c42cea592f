package outbound

import "net"

// SetResolver has a policy look names up elsewhere.
func SetResolver(p *Policy, r *net.Resolver) { p.resolver = r }
