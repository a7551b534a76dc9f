package zookeeper

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"fairway/internal/reading"
	"fairway/internal/servers"
)

// The client library believes what a server says of lengths: one that is wrong ends the program, or takes all of its memory. So it
// never sees an answer that was not looked at here. These are what it asks, and the numbers of ZooKeeper's protocol for it.
const (
	opExists   = 3
	opGetData  = 4
	opChildren = 12 // getChildren2

	xidWatch = -1
	headSize = 16 // of an answer: xid, zxid, error
	statSize = 68

	// refusedAsTooLarge replaces an answer that is too large (BadArguments, which ZooKeeper never answers to the requests made
	// here).
	refusedAsTooLarge = -8
	// hopeless bounds the length of skipped answers: one longer than hopeless times the maximum ends the connection.
	hopeless = 64

	firstAnswer = 10 * time.Second // within which a server that was connected to has to speak
)

// dialer makes guarded connections, and knows why the last one failed.
type dialer struct {
	ctx   context.Context
	reach *servers.Reach // nil: no TLS
	most  int            // bytes of an answer
	lane  *reading.Lane

	mu   sync.Mutex
	conn *guard
	why  error
}

// dial implements zk.Dialer.
func (d *dialer) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.ctx, 5*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext(ctx, network, address)
	if err == nil && d.reach != nil {
		host, _, _ := net.SplitHostPort(address)
		conn, err = handshake(ctx, conn, *d.reach, host)
	}
	if err != nil {
		d.failed(fmt.Errorf("%s: %w", address, err))
		return nil, err
	}
	g := &guard{Conn: conn, address: address, most: d.most, failed: d.failed, ctx: d.ctx, lane: d.lane, pendingRequests: map[int32]int32{}}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		conn.Close()
		return nil, d.ctx.Err()
	}
	d.conn = g
	return g, nil
}

func handshake(ctx context.Context, conn net.Conn, reach servers.Reach, host string) (net.Conn, error) {
	config, err := reach.TLS(host)
	if err == nil {
		secure := tls.Client(conn, config)
		if err = secure.HandshakeContext(ctx); err == nil {
			return secure, nil
		}
	}
	conn.Close()
	return nil, err
}

func (d *dialer) failed(why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.why = why
}

// lastFailure returns why a connection failed, or could not be made; nil: none did.
func (d *dialer) lastFailure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.why
}

// cut ends the connection that there is.
func (d *dialer) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		d.conn.Close()
	}
}

// processed notes that the last answer to a request has been taken in.
func (d *dialer) processed() {
	d.mu.Lock()
	g := d.conn
	d.mu.Unlock()
	if g != nil {
		g.endTurn()
	}
}

// guard is a connection that checks answers before they are read.
type guard struct {
	net.Conn
	address string
	most    int
	failed  func(error)
	ctx     context.Context
	lane    *reading.Lane

	mu              sync.Mutex
	turn            *reading.Turn   // of the large answer that was read last; nil: it has been taken in
	pendingRequests map[int32]int32 // what requests ask, by number; those without an answer yet
	closed          bool
	begun           bool // the first request, which has no number, has gone

	answered bool   // the first answer is there
	ready    []byte // what has been looked at, and not been read
}

// Write notes the requests. The library writes a request at once.
func (g *guard) Write(p []byte) (int, error) {
	g.mu.Lock()
	if g.begun && len(p) >= 12 {
		switch op := int32(binary.BigEndian.Uint32(p[8:])); op {
		case opExists, opGetData, opChildren:
			g.pendingRequests[int32(binary.BigEndian.Uint32(p[4:]))] = op
		}
	}
	g.begun = true
	g.mu.Unlock()
	return g.Conn.Write(p)
}

// SetReadDeadline leaves the first answer less time than the library does. An answer is read to its end, so a deadline that is
// taken back has done its work.
func (g *guard) SetReadDeadline(t time.Time) error {
	if first := time.Now().Add(firstAnswer); !g.answered && (t.IsZero() || t.After(first)) {
		t = first
	}
	return g.Conn.SetReadDeadline(t)
}

// Read returns the bytes of answers, each once all of it is there.
func (g *guard) Read(p []byte) (int, error) {
	if len(g.ready) == 0 {
		answer, err := g.answer()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				g.failed(fmt.Errorf("%s: %w", g.address, err))
			}
			return 0, err
		}
		g.ready = answer
	}
	n := copy(p, g.ready)
	g.ready = g.ready[n:]
	return n, nil
}

// answer reads one, with the length before it.
func (g *guard) answer() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(g.Conn, size[:]); err != nil {
		if errors.Is(err, io.EOF) && !g.answered {
			return nil, errors.New("the server closed the connection before it said anything")
		}
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if !g.answered {
		return g.first(n)
	}
	if n < headSize || n/hopeless > g.most {
		return nil, fmt.Errorf("the answer is not valid for ZooKeeper: its length is %d", n)
	}
	if n > g.most {
		return g.tooLarge(n)
	}
	turn := g.lane.Begin()
	if n >= largeAnswer {
		if err := turn.Take(g.ctx); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer // grows with the bytes that come, not with the announced size
	out.Write(size[:])
	if _, err := io.CopyN(&out, g.Conn, int64(n)); err != nil {
		turn.End()
		return nil, fmt.Errorf("the answer ended early: %w", err)
	}
	wanted, err := g.check(out.Bytes()[4:])
	if err != nil || n < largeAnswer || !wanted {
		turn.End()
		return out.Bytes(), err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		turn.End()
		return nil, net.ErrClosed
	}
	g.turn = turn
	return out.Bytes(), nil
}

// largeAnswer is the least size in bytes of an answer that takes a turn: only one such answer is held at a time, until it
// has been taken in.
const largeAnswer = 1 << 20

// endTurn lets the next large answer be read.
func (g *guard) endTurn() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turn != nil {
		g.turn.End()
		g.turn = nil
	}
}

// Close implements net.Conn. Answers that were read from the connection are lost.
func (g *guard) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.endTurn()
	return g.Conn.Close()
}

// first returns the answer to the request for a session: version, timeout, session, password.
func (g *guard) first(n int) ([]byte, error) {
	if n < 20 || n > 4096 {
		return nil, fmt.Errorf("it does not speak ZooKeeper's protocol: its first answer would have %d bytes", n)
	}
	out := make([]byte, 4+n)
	binary.BigEndian.PutUint32(out, uint32(n))
	if _, err := io.ReadFull(g.Conn, out[4:]); err != nil {
		return nil, fmt.Errorf("the first answer ended early: %w", err)
	}
	body := out[4:]
	timeout, session := int32(binary.BigEndian.Uint32(body[4:])), binary.BigEndian.Uint64(body[8:])
	if session != 0 && (timeout < 100 || timeout > 24*3600*1000) {
		return nil, fmt.Errorf("it offers a session of %d ms", timeout)
	}
	if password := int32(binary.BigEndian.Uint32(body[16:])); int(password) > n-20 {
		return nil, errors.New("it does not speak ZooKeeper's protocol: its first answer is not one of that protocol")
	}
	g.answered = true
	return out, nil
}

// tooLarge reads over an answer, and says so in its place.
func (g *guard) tooLarge(n int) ([]byte, error) {
	out := make([]byte, 4+headSize)
	if _, err := io.ReadFull(g.Conn, out[4:]); err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, g.Conn, int64(n-headSize)); err != nil {
		return nil, fmt.Errorf("the answer ended early: %w", err)
	}
	xid := int32(binary.BigEndian.Uint32(out[4:]))
	if xid < 0 {
		return nil, fmt.Errorf("the answer is not valid for ZooKeeper: %d bytes without a request", n)
	}
	g.take(xid)
	binary.BigEndian.PutUint32(out, headSize)
	code := int32(refusedAsTooLarge)
	binary.BigEndian.PutUint32(out[16:], uint32(code))
	return out, nil
}

func (g *guard) take(xid int32) (op int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	op = g.pendingRequests[xid]
	delete(g.pendingRequests, xid)
	return op
}

// check returns an error if an answer is invalid, and whether somebody waits for its content.
func (g *guard) check(body []byte) (wanted bool, _ error) {
	xid, code, rest := int32(binary.BigEndian.Uint32(body)), binary.BigEndian.Uint32(body[12:]), body[headSize:]
	ok := true
	switch op := g.take(xid); {
	case xid == xidWatch:
		ok = len(rest) >= 8 && isWord(&rest, 8) && len(rest) == 0
	case xid < 0 || code != 0:
	case op == 0: // of a request with an empty answer
	case op == opExists:
		ok = len(rest) >= statSize
	case op == opGetData:
		if ok = len(rest) >= 4; ok && binary.BigEndian.Uint32(rest) == 1<<32-1 { // a node may have no content at all
			rest = rest[4:]
		} else {
			ok = ok && isWord(&rest, 0)
		}
		ok, wanted = ok && len(rest) >= statSize, true
	case op == opChildren:
		wanted = true
		ok = areWords(&rest) && len(rest) >= statSize
	}
	if !ok {
		return false, fmt.Errorf("the answer is not valid for ZooKeeper (%d bytes to request %d)", len(body), xid)
	}
	return wanted, nil
}

// isWord takes skip bytes, and a text with its length before it, off the front.
func isWord(rest *[]byte, skip int) bool {
	b := (*rest)[min(skip, len(*rest)):]
	if len(b) < 4 {
		return false
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n) > uint64(len(b)-4) {
		return false
	}
	*rest = b[4+n:]
	return true
}

// areWords takes a list of texts off the front.
func areWords(rest *[]byte) bool {
	if len(*rest) < 4 {
		return false
	}
	count := binary.BigEndian.Uint32(*rest)
	if *rest = (*rest)[4:]; uint64(count) > uint64(len(*rest))/4 {
		return false
	}
	for range count {
		if !isWord(rest, 0) {
			return false
		}
	}
	return true
}
