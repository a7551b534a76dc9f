package histories

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fairway/internal/config"
)

// patience is how long a step may take.
const patience = 20 * time.Second

// world is the place of the users' rules: a folder or a cluster.
type world interface {
	do(a action)                 // notes what an action changes in it, if anything
	write(context.Context) error // changes it so
}

// late is a world with changes that wait until the control plane runs again.
type late interface{ mend(context.Context) error }

// player plays one script.
type player struct {
	patience time.Duration
	world    world
	start    func(context.Context) (control, error)
	anew     func(context.Context) (control, error) // starts one to compare with; nil: start does
	control  control
	clients  map[string]*client
	said     map[string]saying // by node id, since the control plane started
	machines map[string]proxy  // proxies that came last with a WorkloadGroup, by node id, since the control plane started
	keeps    bool              // the control plane keeps on disk which machines are registered
	tried    int               // how often it was asked where objects apply
	planner  *planning         // plans steps before they are made; nil: nothing does
}

// saying is the last report of an agent about its application, and the proxy as it was then.
type saying struct {
	proxy   proxy
	failure string
}

// play plays a script and returns what went wrong, after which step. progress is called after each.
func (p *player) play(s script, progress func(step int)) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), p.patience)
	defer cancel()
	if p.control, err = p.start(ctx); err != nil {
		return err
	}
	defer func() {
		for _, c := range p.clients {
			c.Disconnect()
		}
		if p.control != nil {
			err = errors.Join(err, p.control.stop())
		}
	}()
	for i, st := range s {
		if err := p.step(st); err != nil {
			return fmt.Errorf("after step %d: %w", i, err)
		}
		progress(i)
	}
	return nil
}

func (p *player) step(st step) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.patience)
	defer cancel()
	restart := slices.ContainsFunc(st, func(a action) bool { return a.Restart })
	if restart {
		for _, c := range p.clients {
			c.remember()
		}
		err := p.control.stop()
		if p.control = nil; err != nil {
			return err
		}
	}
	if p.planner != nil {
		if err := p.planner.plan(ctx, st, p); err != nil {
			return fmt.Errorf("plan: %w", err)
		}
	}
	for _, a := range st {
		p.world.do(a)
	}
	if err := p.world.write(ctx); err != nil {
		return err
	}
	if restart {
		if err := p.comeBack(ctx); err != nil {
			return err
		}
	}
	reported := false
	for _, a := range st {
		reported = reported || a.Report != nil
		if err := p.act(ctx, a); err != nil {
			return err
		}
	}
	if w, is := p.world.(late); is {
		if err := w.mend(ctx); err != nil {
			return err
		}
	}
	if err := p.check(ctx, reported); err != nil {
		return err
	}
	if p.planner != nil {
		if err := p.planner.check(p.clients); err != nil {
			return err
		}
	}
	if !restart {
		return nil
	}
	less := ""
	for _, c := range p.clients {
		less += c.less()
	}
	if less != "" {
		return errors.New(less)
	}
	return nil
}

// comeBack starts the control plane, and its proxies come back with their resources.
func (p *player) comeBack(ctx context.Context) (err error) {
	clear(p.said)
	if !p.keeps {
		clear(p.machines)
	}
	if p.control, err = p.start(ctx); err != nil {
		return err
	}
	for _, c := range p.clients {
		if err := c.connect(context.Background(), p.control); err != nil {
			return err
		}
		if err := p.registers(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// registers notes which group a proxy names that has come, and waits until the control plane knows it. Its machine is registered until the
// proxy names another one: histories take less time than the grace.
func (p *player) registers(ctx context.Context, c *client) error {
	if p.machines == nil {
		p.machines = map[string]proxy{}
	}
	key := c.Node.Id + "|" + c.proxy.Account
	_, was := p.machines[key]
	if c.proxy.Metadata[groupField] != "" {
		p.machines[key] = c.proxy
	} else if delete(p.machines, key); !was {
		return nil
	}
	return p.control.settle(ctx, p.control, []*client{c})
}

// act does the actions of proxies.
func (p *player) act(ctx context.Context, a action) error {
	switch {
	case a.Connect != nil:
		c := p.clients[a.Connect.Name]
		if c != nil {
			c.Disconnect()
		}
		if c == nil || a.Connect.Forgets || c.SotW != a.Connect.SotW {
			c = newClient(*a.Connect)
			p.clients[a.Connect.Name] = c
		}
		c.become(*a.Connect)
		c.less() // it is another proxy now
		if err := c.connect(context.Background(), p.control); err != nil {
			return err
		}
		return p.registers(ctx, c)
	case a.Leave != "":
		if c := p.clients[a.Leave]; c != nil {
			c.Disconnect()
			delete(p.clients, a.Leave)
		}
	case a.Report != nil:
		if c := p.clients[a.Report.Proxy]; c != nil {
			p.said[c.Node.Id+"|"+c.proxy.Account] = saying{c.proxy, a.Report.Failure}
			return c.report(ctx, p.control, a.Report.Failure)
		}
	}
	return nil
}

// groupField is the metadata key of the WorkloadGroup that the proxy's machine registers with.
const groupField = "AUTO_REGISTER_GROUP"

const healthType = "type.googleapis.com/istio.v1.HealthInformation"

// check compares every client with one that comes to a control plane which was just started.
func (p *player) check(ctx context.Context, reported bool) (err error) {
	start := p.start
	if p.anew != nil {
		start = p.anew
	}
	fresh, err := start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fresh.stop()) }()
	names := slices.Sorted(maps.Keys(p.clients))
	var clients, others []*client
	speakers, err := p.repeat(ctx, fresh)
	defer silence(speakers)
	if err != nil {
		return err
	}
	for _, name := range names {
		c := p.clients[name]
		other := newClient(c.proxy)
		if err := other.connect(context.Background(), fresh); err != nil {
			return err
		}
		defer other.Disconnect()
		clients, others = append(clients, c), append(others, other)
	}
	for {
		if err := p.control.settle(ctx, fresh, clients); err != nil {
			return err
		}
		if err := p.try(ctx); err != nil {
			return err
		}
		if err := fresh.settle(ctx, p.control, others); err != nil {
			return fmt.Errorf("started anew: %w", err)
		}
		silence(speakers) // the agents that are still there are connected as others by now
		// Reports of agents may arrive at any time.
		exact := p.control.exact() && !reported && len(p.said) == 0 && len(p.machines) == 0
		diff := compare(clients, others)
		if diff == "" && p.control.problems() != fresh.problems() {
			diff = "the problems are\n" + p.control.problems() + "want\n" + fresh.problems()
			exact = false // proxies that left are forgotten in a moment
		}
		if diff == "" {
			return nil
		}
		if exact || ctx.Err() != nil {
			return errors.New(diff)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return errors.New(diff)
		}
	}
}

// try asks where objects of a kind apply, with another kind each time. This tries turns without each of the objects and reverts them, and
// the next comparison must show no trace of them.
func (p *player) try(ctx context.Context) error {
	c, own := p.control.(*inProcess)
	if !own {
		return nil
	}
	kinds := config.Kinds()
	kind := kinds[p.tried%len(kinds)]
	p.tried++
	if _, err := c.discovery.Applies(ctx, string(kind), "", "", ""); err != nil {
		return fmt.Errorf("where does each %s apply: %w", kind, err)
	}
	return nil
}

// repeat sends a control plane that was just started the reports of agents that the other one has, and registers the same machines. It
// returns the reporting clients; the reports are kept while they are connected.
func (p *player) repeat(ctx context.Context, fresh control) (speakers []*client, err error) {
	for _, key := range slices.Sorted(maps.Keys(p.said)) {
		from := p.said[key].proxy
		from.Metadata = maps.Clone(from.Metadata)
		delete(from.Metadata, groupField) // it registers a machine below
		c := newClient(from)
		if err := c.connect(ctx, fresh); err != nil {
			return speakers, err
		}
		speakers = append(speakers, c)
		if err := c.report(ctx, fresh, p.said[key].failure); err != nil {
			return speakers, err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.machines)) {
		c := newClient(p.machines[key])
		if err := c.connect(ctx, fresh); err != nil {
			return speakers, err
		}
		speakers = append(speakers, c)
		if err := fresh.settle(ctx, fresh, []*client{c}); err != nil {
			return speakers, err
		}
	}
	return speakers, nil
}

func silence(speakers []*client) {
	for _, c := range speakers {
		c.Disconnect()
	}
}

func compare(clients, others []*client) string {
	var b strings.Builder
	for i, c := range clients {
		if err := c.err(); err != nil {
			fmt.Fprintf(&b, "%s lost its stream: %v\n", c.proxy.Name, err)
		}
		if diff := c.diff(others[i]); diff != "" {
			fmt.Fprintf(&b, "%s differs from one that just came:\n%s", c.proxy.Name, diff)
		}
	}
	return b.String()
}
