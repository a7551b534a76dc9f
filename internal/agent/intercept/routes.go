package intercept

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// RouteProtocol marks routes and routing rules as ours (rtnetlink(7), rtm_protocol: who installed it).
const RouteProtocol = 133

// fraProtocol is FRA_PROTOCOL of linux/fib_rules.h.
const fraProtocol = 21

// route is one of two things: a routing rule "packets with mark use table", or, with mark 0, a route "in table, packets to an
// address are delivered to this machine".
type route struct {
	family byte
	mark   uint32
	table  uint32
	to     netip.Addr // zero: every address
}

// wantedRoutes returns routes that keep marked packets on this machine, as TPROXY needs. Without TPROXY a proxy connects to its
// workload from an address that rules let pass: with IPv4 all addresses like it are this machine's, with IPv6 a route makes it so.
// Machines that were prepared in another way may have it as an address already; both go together.
func wantedRoutes(o Options) []route {
	switch {
	case !(builder{Options: o}).capturesInbound():
		return nil
	case o.Mode != TProxy && o.IPv6:
		return []route{{family: unix.AF_INET6, table: unix.RT_TABLE_LOCAL, to: proxySource6()}}
	case o.Mode != TProxy:
		return nil
	}
	families := []byte{unix.AF_INET}
	if o.IPv6 {
		families = append(families, unix.AF_INET6)
	}
	var out []route
	for _, f := range families {
		out = append(out, route{family: f, table: o.RouteTable}, route{family: f, mark: o.Mark, table: o.RouteTable})
	}
	return out
}

// setRoutes replaces our routes by the wanted ones, or adds those if keep is set; on failure it restores the former ones. It
// returns the former routes, so that the caller can undo it later.
func setRoutes(want []route, keep bool) (before []route, changed bool, err error) {
	c, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return nil, false, fmt.Errorf("connect to the routing tables: %w", err)
	}
	defer c.Close()
	before, err = ourRoutes(c)
	if err != nil {
		return nil, false, fmt.Errorf("list routes: %w", err)
	}
	if keep {
		want = slices.Concat(before, want)
	}
	changed, err = changeRoutes(c, before, want)
	if err != nil {
		_, undo := changeRoutes(c, want, before)
		return before, false, errors.Join(fmt.Errorf("route marked packets to this machine: %w", err), undo)
	}
	return before, changed, nil
}

// changeRoutes adds before it removes. A route that already exists, or is already removed, is not an error.
func changeRoutes(c *netlink.Conn, from, to []route) (bool, error) {
	changed := false
	for _, r := range to {
		if slices.Contains(from, r) {
			continue
		}
		if err := r.send(c, true); err != nil && !errors.Is(err, unix.EEXIST) {
			return changed, err
		}
		changed = true
	}
	for _, r := range from {
		if slices.Contains(to, r) {
			continue
		}
		if err := r.send(c, false); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}

// send adds or removes the route.
func (r route) send(c *netlink.Conn, add bool) error {
	kind, flags := netlink.HeaderType(unix.RTM_DELROUTE), netlink.Request|netlink.Acknowledge
	if add {
		kind, flags = unix.RTM_NEWROUTE, flags|netlink.Create|netlink.Excl
	}
	e := netlink.NewAttributeEncoder()
	header := []byte{r.family, 0, 0, 0, unix.RT_TABLE_UNSPEC, RouteProtocol, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0} // rtmsg
	if r.mark != 0 {
		kind += unix.RTM_NEWRULE - unix.RTM_NEWROUTE
		header = []byte{r.family, 0, 0, 0, unix.RT_TABLE_UNSPEC, 0, 0, unix.FR_ACT_TO_TBL, 0, 0, 0, 0} // fib_rule_hdr
		e.Uint32(unix.FRA_TABLE, r.table)
		e.Uint32(unix.FRA_FWMARK, r.mark)
		e.Uint8(fraProtocol, RouteProtocol)
	} else {
		lo, err := net.InterfaceByName("lo")
		if err != nil {
			return err
		}
		if r.to.IsValid() {
			header[1] = byte(r.to.BitLen())
			e.Bytes(unix.RTA_DST, r.to.AsSlice())
		}
		e.Uint32(unix.RTA_TABLE, r.table)
		e.Uint32(unix.RTA_OIF, uint32(lo.Index))
	}
	attributes, err := e.Encode()
	if err != nil {
		return err
	}
	_, err = c.Execute(netlink.Message{Header: netlink.Header{Type: kind, Flags: flags}, Data: append(header, attributes...)})
	return err
}

// ourRoutes lists the routes and rules of RouteProtocol.
func ourRoutes(c *netlink.Conn) ([]route, error) {
	var out []route
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		for _, kind := range []netlink.HeaderType{unix.RTM_GETROUTE, unix.RTM_GETRULE} {
			all, err := c.Execute(netlink.Message{
				Header: netlink.Header{Type: kind, Flags: netlink.Request | netlink.Dump},
				Data:   append([]byte{family}, make([]byte, unix.SizeofRtMsg-1)...),
			})
			if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
				continue // a kernel without this family
			}
			if err != nil {
				return nil, err
			}
			for _, m := range all {
				r, ours, err := parseRoute(m.Data, kind == unix.RTM_GETRULE)
				if err != nil {
					return nil, err
				}
				if ours {
					out = append(out, r)
				}
			}
		}
	}
	return out, nil
}

func parseRoute(data []byte, rule bool) (r route, ours bool, err error) {
	if len(data) < unix.SizeofRtMsg {
		return r, false, errors.New("a message of the kernel is too short")
	}
	d, err := netlink.NewAttributeDecoder(data[unix.SizeofRtMsg:])
	if err != nil {
		return r, false, err
	}
	r.family = data[0]
	ours = !rule && data[5] == RouteProtocol
	for d.Next() {
		switch {
		case d.Type() == unix.RTA_TABLE && !rule, d.Type() == unix.FRA_TABLE && rule:
			r.table = d.Uint32()
		case d.Type() == unix.RTA_DST && !rule:
			r.to, _ = netip.AddrFromSlice(d.Bytes())
		case rule && d.Type() == unix.FRA_FWMARK:
			r.mark = d.Uint32()
		case rule && d.Type() == fraProtocol:
			ours = d.Uint8() == RouteProtocol
		}
	}
	return r, ours, d.Err()
}
