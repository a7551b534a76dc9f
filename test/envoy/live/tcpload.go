package live

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"fairway/test/rig"
)

// TCPClients connect to an address, are greeted, send a line, read it back and close, again and again.
func TCPClients(kind string, n int, address string) Clients {
	return Clients{Kind: kind, Count: n, start: func() asker { return &dialer{address: address} }}
}

// LongTCPClients connect once and send line after line on that connection.
func LongTCPClients(kind string, n int, address string) Clients {
	return Clients{Kind: kind, Count: n, start: func() asker { return &dialer{address: address, keep: true} }}
}

// KeptTCP is a client of a server that greets with its name and echoes. One goroutine may use it.
type KeptTCP struct{ dialer dialer }

// KeepTCP is for an address.
func KeepTCP(address string) *KeptTCP { return &KeptTCP{dialer{address: address, keep: true}} }

// Ask sends a line and reads it back, on the connection that it keeps, or on a new one if it has none or the last line failed. It returns
// the name of the greeting server.
func (k *KeptTCP) Ask(ctx context.Context) (server string, err error) { return k.dialer.ask(ctx) }

// Connected reports whether it has a connection.
func (k *KeptTCP) Connected() bool { return k.dialer.conn != nil }

// Close closes the connection. The next line makes another one.
func (k *KeptTCP) Close() { k.dialer.close() }

// dialer is a client of a server that greets with its name and echoes.
type dialer struct {
	address string
	keep    bool // the connection is kept from one asking to the next

	conn   net.Conn // nil where none is kept
	in     *bufio.Reader
	server string // name of the greeting server
	lines  int
}

func (d *dialer) ask(ctx context.Context) (string, error) {
	if d.conn == nil {
		if err := d.dial(ctx); err != nil {
			return "", err
		}
	}
	err := d.exchange()
	if err != nil || !d.keep {
		d.close()
	}
	return d.server, err
}

func (d *dialer) dial(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: rig.Bound}).DialContext(ctx, "tcp", d.address)
	if err != nil {
		return err
	}
	d.conn, d.in = conn, bufio.NewReader(conn)
	_ = conn.SetDeadline(time.Now().Add(rig.Bound))
	name, err := d.in.ReadString('\n')
	if err != nil {
		d.close()
		return fmt.Errorf("waiting for the greeting: %w", err)
	}
	d.server = strings.TrimSpace(name)
	return nil
}

func (d *dialer) exchange() error {
	d.lines++
	line := fmt.Sprintf("line %d\n", d.lines)
	_ = d.conn.SetDeadline(time.Now().Add(rig.Bound))
	if _, err := io.WriteString(d.conn, line); err != nil {
		return err
	}
	back, err := d.in.ReadString('\n')
	if err == nil && back != line {
		err = fmt.Errorf("sent %q, got back %q", line, back)
	}
	return err
}

func (d *dialer) close() {
	if d.conn != nil {
		d.conn.Close()
		d.conn = nil
	}
}
