package nomad

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"fairway/internal/printable"
	"fairway/internal/servers"
	"fairway/internal/source/platform"
)

const (
	// Servers say nothing of a stream, not even that it is open, until something happens, and then, or every ten seconds, that they
	// are there.
	headerTime  = 40 * time.Second
	idleTime    = 40 * time.Second
	answerTime  = 12 * time.Second // until any other answer begins
	atOnce      = 8                // questions of one lane
	maxEvent    = 4 << 20          // bytes of a line of a stream
	maxOne      = 256 << 10        // bytes of a registration, and of an event of one
	lineTime    = 10 * time.Second // for a line of a stream
	tokenHeader = "X-Nomad-Token"
)

// clients returns the clients of a registry's servers, in order, and the HTTP client with the connections that they
// share.
func clients(o Options, lanes int, secrets *printable.Secrets) (*http.Client, []*api.Client, error) {
	below := o.Reach.Client(servers.Calls{
		Header: headerTime, Idle: idleTime, Connections: lanes * (1 + atOnce), Secrets: secrets,
		Token: func(h http.Header, token string) { h.Set(tokenHeader, token) },
	})
	plain := *below
	plain.Transport = plainly{below.Transport}
	var out []*api.Client
	for _, url := range o.URLs {
		c, err := api.NewClient(&api.Config{Address: strings.TrimSuffix(url, "/"), Region: o.Region, HttpClient: &plain})
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", url, err)
		}
		out = append(out, c)
	}
	return below, out, nil
}

// plainly removes the Accept-Encoding header of Nomad's client: the transport below decompresses before it counts bytes.
type plainly struct{ http.RoundTripper }

// RoundTrip asks.
func (p plainly) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.Header.Del("Accept-Encoding")
	return p.RoundTripper.RoundTrip(q)
}

// read asks for something, reads the answer as it comes, and returns its index. One large answer is read at a time.
func (l *lane) read(ctx context.Context, c *api.Client, path, namespace string, each func(*platform.Stream) error) (uint64, error) {
	ctx, turn := l.of.lane.With(ctx)
	defer turn.End()
	ctx = servers.Ask(ctx, servers.Question{Within: answerTime, Read: func(from io.Reader) error {
		return each(platform.NewStream(from))
	}})
	meta, err := c.Raw().Query(path, new(any), l.query(ctx, namespace))
	if err != nil {
		return 0, explained(err, namespace)
	}
	return meta.LastIndex, nil
}

// names reads which services there are, as far as there are not too many.
func (l *lane) names(ctx context.Context, c *api.Client) (names []service, over int, index uint64, err error) {
	bytes := int64(0)
	index, err = l.read(ctx, c, "/v1/services", l.namespace, func(s *platform.Stream) error {
		return s.Array(func() error {
			from, namespace := len(names), ""
			_, err := s.Object(func(name string) (err error) {
				switch name {
				case "Namespace":
					namespace, err = s.String(maxOne)
					return err
				case "Services":
					return s.Array(func() error {
						name, err := serviceName(s)
						bytes += int64(len(name))
						switch {
						case err != nil || name == "":
						case len(names) >= l.bounds.Things || bytes > l.bounds.Bytes/4:
							over++
						default:
							names = append(names, service{Name: name})
						}
						return err
					})
				}
				return s.Skip()
			})
			for i := range names[from:] {
				names[from+i].Namespace = shared(namespace)
			}
			return err
		})
	})
	return names, over, index, err
}

// serviceName reads that of one of the list.
func serviceName(s *platform.Stream) (name string, err error) {
	_, err = s.Object(func(member string) (err error) {
		if member != "ServiceName" {
			return s.Skip()
		}
		name, err = s.String(4 << 10)
		return err
	})
	return name, err
}

// registrations reads those of a service, as far as there is room.
func (l *lane) registrations(ctx context.Context, c *api.Client, k service) (out found, err error) {
	n := 0
	out.index, err = l.read(ctx, c, "/v1/service/"+url.PathEscape(k.Name), k.Namespace, func(s *platform.Stream) error {
		return s.Array(func() error {
			if n++; n > platform.MostListed {
				return fmt.Errorf("more than %d registrations", platform.MostListed)
			}
			var one *api.ServiceRegistration
			ok, err := s.Decode(&one, maxOne)
			switch {
			case err != nil:
				return err
			case !ok:
				out.over++
				return nil
			case one == nil:
				return nil
			}
			r := newRecord(k, one)
			if out.bytes += r.Bytes(); out.bytes > l.bounds.Bytes || len(out.records) >= l.bounds.Endpoints {
				out.over++
				out.noRoom = out.noRoom || out.bytes > l.bounds.Bytes
				return nil
			}
			out.records = append(out.records, r)
			return nil
		})
	})
	return out, err
}

// happening is what happened at one index.
type happening struct {
	index  uint64
	events []event
	err    error // why the stream ended; nothing comes after it
}

type event struct {
	topic  api.Topic
	kind   string
	record *record // nil: it has none
}

// stream opens a stream of what happens after an index. The channel is closed once ctx has ended, or the stream.
func (l *lane) stream(ctx context.Context, c *api.Client) (<-chan happening, error) {
	q := l.query(servers.Ask(ctx, servers.Question{Endless: true}), l.namespace)
	q.Params = map[string]string{"index": strconv.FormatUint(l.index, 10), "topic": string(api.TopicService) + ":*"}
	body, err := c.Raw().Response("/v1/event/stream", q)
	if err != nil {
		return nil, explained(err, l.namespace)
	}
	out := make(chan happening, 10)
	go func() {
		defer close(out)
		defer body.Close()
		s := platform.NewStream(&lines{from: body})
		for ctx.Err() == nil {
			h, err := readHappening(s)
			if h.err = err; err == nil && h.index == 0 && len(h.events) == 0 {
				continue // a heartbeat
			}
			select {
			case out <- h:
			case <-ctx.Done():
			}
			if err != nil {
				return
			}
		}
	}()
	return out, nil
}

func readHappening(s *platform.Stream) (out happening, err error) {
	if _, err := s.Peek(); err != nil {
		return out, err
	}
	_, err = s.Object(func(name string) error {
		switch name {
		case "Index":
			_, err := s.Decode(&out.index, 64)
			return err
		case "Events":
			return s.Array(func() error {
				var one struct {
					Topic   api.Topic
					Type    string
					Payload struct{ Service *api.ServiceRegistration }
				}
				ok, err := s.Decode(&one, maxOne)
				if err != nil || !ok {
					return errors.Join(err, errMissed)
				}
				e := event{topic: one.Topic, kind: one.Type}
				if r := one.Payload.Service; r != nil && r.ServiceName != "" && r.ID != "" {
					e.record = newRecord(service{Namespace: shared(r.Namespace), Name: r.ServiceName}, r)
				}
				out.events = append(out.events, e)
				return nil
			})
		}
		return s.Skip()
	})
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("it is not an event: %w", err)
	}
	return out, err
}

// lines are those of a stream: none is longer than maxEvent, or takes longer than lineTime.
type lines struct {
	from  io.Reader
	of    int
	begun time.Time // of the line; zero: none has begun
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	n, err := l.from.Read(p)
	for _, b := range p[:n] {
		switch {
		case b == '\n':
			l.of, l.begun = 0, time.Time{}
		case l.begun.IsZero():
			l.of, l.begun = 1, time.Now()
		default:
			l.of++
		}
	}
	switch {
	case l.of > maxEvent:
		return 0, fmt.Errorf("an event of more than %d MiB: %w", maxEvent>>20, errMissed)
	case !l.begun.IsZero() && time.Since(l.begun) > lineTime:
		return 0, fmt.Errorf("an event came for more than %s", lineTime)
	}
	return n, err
}
