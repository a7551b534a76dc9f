package patch

import (
	"errors"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"google.golang.org/protobuf/proto"

	"fairway/internal/envoy"
	"fairway/internal/envoy/amend"
	"fairway/internal/envoy/route"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// change applies a set of patches, one after the other, to a resource, and records the patches that matched it. All that may change it are
// applied to one message, which is encoded once. If Envoy would refuse the result, or a patch cannot be applied, the patches are applied in
// smaller runs, until the faulty patch is alone: it is skipped.
func (t *Tables) change(r *table.Reader, typ xdstype.Type, set, name string, e *envoy.Encoded) *envoy.Encoded {
	p, ok := table.Get(r, t.plans, set)
	if !ok {
		return e
	}
	c := changing{typ: typ, name: name, plan: p, out: e}
	list, err := c.candidates()
	if err != nil {
		return e
	}
	for size := len(list); len(list) > 0 && !c.gone; {
		size = min(size, len(list))
		switch err := c.run(list[:size], size == len(list)); {
		case err == nil:
			list, size = list[size:], 2*size
		case size > 1:
			size /= 2
		default:
			one := p.patches[list[0]]
			c.by = append(c.by, one.name)
			t.note(r, one.key, err.Error())
			list = list[1:]
		}
	}
	switch {
	case c.gone:
		return &envoy.Encoded{Err: errRemoved, Hides: true, Amended: c.by}
	case len(c.by) == 0:
		return e
	case c.out == e:
		same := *e
		c.out = &same
	case len(p.adds) > 0 && typ != xdstype.Clusters:
		// A patch may route to a cluster that another patch adds: the cluster has to be sent first.
		c.out.Needs = slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.out.Needs, p.adds))))
	}
	c.out.Amended = c.by
	if all := p.byType[typ].all; slices.Equal(all, c.by) {
		c.out.Amended = all // held once for all that they match
	}
	return c.out
}

// errRemoved is why proxies are not sent a resource.
var errRemoved = errors.New("a patch takes it away")

// changing is a resource while patches are applied to it. It is decoded for the first patch that may match.
type changing struct {
	typ  xdstype.Type
	name string
	plan *plan
	out  *envoy.Encoded // as the runs so far have left it
	by   []string       // which patches matched
	gone bool           // a patch took it away

	message, withoutVHDS  proto.Message // decoded: out, out.WithoutVHDS
	open, openWithoutVHDS *amend.Open
}

// run applies patches to the message and encodes it. After an error the message is as before the run. last: no other patch follows.
func (c *changing) run(list []int, last bool) error {
	matched, several := 0, len(list) > 1
	before := len(c.by)
	undo := func(err error) error {
		c.by = c.by[:before]
		c.message, c.withoutVHDS = nil, nil
		return err
	}
	for len(list) > 0 {
		if j := c.jointOf(list); j != nil {
			list = list[len(j.places):]
			changed, err := c.applyJoint(j, last && len(list) == 0)
			if err != nil {
				return undo(errors.New("the patch cannot be applied: " + err.Error()))
			}
			if changed {
				c.by = append(c.by, j.names...)
				matched += len(j.places)
			}
			continue
		}
		one := c.plan.patches[list[0]]
		list = list[1:]
		changed, err := c.apply(one.Patch)
		if err != nil {
			return undo(errors.New("the patch cannot be applied: " + err.Error()))
		}
		if !changed.Matched {
			continue
		}
		c.by = append(c.by, one.name)
		if changed.Gone {
			c.gone = true
			return nil
		}
		matched++
		if err := c.applyWithoutVHDS(one.Patch); err != nil && several {
			return undo(err)
		}
	}
	if matched == 0 {
		return nil
	}
	c.open.Pack()
	next := c.seal()
	if next.Err != nil {
		return undo(errors.New(invalidResult(next.Err)))
	}
	if c.withoutVHDS != nil {
		c.openWithoutVHDS.Pack()
		if bare := c.out.WithoutVHDS.As(c.withoutVHDS.(envoy.Message)); bare != nil {
			next.WithoutVHDS = bare
		} else if c.withoutVHDS = nil; several {
			return undo(errors.New("a client without VHDS would refuse it"))
		}
	}
	c.out = next
	return nil
}

// apply applies one patch.
func (c *changing) apply(p *amend.Patch) (amend.Changed, error) {
	switch c.typ {
	case xdstype.Clusters:
		if !p.MayChangeCluster(c.context(amend.ClusterContext(c.name)), c.name) {
			return amend.Changed{}, nil
		}
	case xdstype.Listeners:
		if !p.MayChangeListener(c.context(amend.Inbound)) && !p.MayChangeListener(c.context(amend.Outbound)) {
			return amend.Changed{}, nil
		}
	case xdstype.Routes:
		if !p.MayChangeRoutes(c.context(amend.RoutesContext(c.name)), c.name) {
			return amend.Changed{}, nil
		}
	case xdstype.VirtualHosts:
		if routes := c.routes(); !p.MayChangeRoutes(c.context(amend.RoutesContext(routes)), routes) {
			return amend.Changed{}, nil
		}
	}
	if err := c.decode(); err != nil {
		return amend.Changed{}, err
	}
	switch m := c.message.(type) {
	case *clusterv3.Cluster:
		return p.ChangeCluster(c.open, m)
	case *listenerv3.Listener:
		if context := c.context(amend.ListenerContext(m)); p.MayChangeListener(context) {
			return p.ChangeListener(context, c.open, m)
		}
	case *routev3.RouteConfiguration:
		return p.ChangeRoutes(c.context(amend.RoutesContext(c.name)), c.open, m)
	case *routev3.VirtualHost:
		return p.ChangeHost(c.routes(), c.open, m)
	}
	return amend.Changed{}, nil
}

// seal encodes the message, with settings that many routes of a virtual host share in one place. Afterwards the message is as before.
func (c *changing) seal() *envoy.Encoded {
	if h, ok := c.message.(*routev3.VirtualHost); ok && route.ShareRetries(h) {
		defer route.OwnRetries(h)
	}
	return sealed(c.message.(envoy.Message), c.out)
}

// applyJoint applies patches of all clusters as one, and reports whether they are for this one.
func (c *changing) applyJoint(j *joint, last bool) (bool, error) {
	if !c.plan.patches[j.places[0]].MayChangeCluster(c.context(amend.ClusterContext(c.name)), c.name) {
		return false, nil
	}
	if err := c.decode(); err != nil {
		return false, err
	}
	return true, j.Change(c.open, c.message, last)
}

// applyWithoutVHDS applies a patch to the form of a route configuration that clients without VHDS get. After an error that form stays as it
// was before the run.
func (c *changing) applyWithoutVHDS(p *amend.Patch) error {
	if c.out.WithoutVHDS == nil {
		return nil
	}
	if c.withoutVHDS == nil {
		m := &routev3.RouteConfiguration{}
		if proto.Unmarshal(c.out.WithoutVHDS.Body, m) != nil {
			return nil //nolint:nilerr // we wrote it
		}
		c.withoutVHDS, c.openWithoutVHDS = m, &amend.Open{}
	}
	_, err := p.ChangeRoutes(c.context(amend.RoutesContext(c.name)), c.openWithoutVHDS, c.withoutVHDS.(*routev3.RouteConfiguration))
	if err != nil {
		c.withoutVHDS = nil
	}
	return err
}

// context is the given one of a sidecar, or a gateway's.
func (c *changing) context(of amend.Context) amend.Context {
	if c.plan.gateway {
		return amend.Gateway
	}
	return of
}

// routes is the name of a virtual host's route configuration.
func (c *changing) routes() string { return c.name[:max(0, strings.LastIndexByte(c.name, '/'))] }

// decode decodes the message as the runs so far have left it, if it is not decoded yet.
func (c *changing) decode() error {
	if c.message != nil {
		return nil
	}
	var m proto.Message
	switch c.typ {
	case xdstype.Clusters:
		m = &clusterv3.Cluster{}
	case xdstype.Listeners:
		m = &listenerv3.Listener{}
	case xdstype.Routes:
		m = &routev3.RouteConfiguration{}
	default:
		m = &routev3.VirtualHost{}
	}
	if err := proto.Unmarshal(c.out.Body, m); err != nil {
		return err
	}
	if h, ok := m.(*routev3.VirtualHost); ok {
		route.OwnRetries(h)
	}
	c.message, c.open = m, &amend.Open{}
	return nil
}
