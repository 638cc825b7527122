package memnet

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipeBytes is the buffer size of one direction of an in-memory connection, about that of a
// kernel's socket buffer.
const pipeBytes = 64 << 10

// pipe is one direction of an in-memory connection: a bounded buffer between one writer and one
// reader. All waits use a sync.Cond, so that a synctest bubble considers a waiting end idle.
type pipe struct {
	mu      sync.Mutex
	changed sync.Cond // signals every change of the fields below

	data        []byte
	partitioned bool // whether a partition keeps data from the reader
	// err is what the writer gets at once, and the reader once data is empty. Once set, only
	// dropping replaces it, if it is io.EOF.
	err error

	read, write deadline
}

func newPipe() *pipe {
	p := &pipe{}
	p.changed.L = &p.mu
	return p
}

// close closes the pipe with err. With drop, unread data is lost.
func (p *pipe) close(err error, drop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil || p.err == io.EOF && drop { // the reader's own end waits for no EOF that is still on its way
		p.err = err
	}
	if drop {
		p.data = nil
	}
	p.read.stop()
	p.write.stop()
	p.changed.Broadcast()
}

func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.data) == 0 || p.partitioned {
		switch {
		case p.err != nil && !(p.partitioned && p.err == io.EOF):
			return 0, p.err
		case p.read.passed():
			return 0, os.ErrDeadlineExceeded
		}
		p.changed.Wait()
	}
	n := copy(b, p.data)
	p.data = p.data[n:]
	if len(p.data) == 0 {
		p.data = nil
	}
	p.changed.Broadcast()
	return n, nil
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	written := 0
	for written < len(b) {
		switch {
		case p.err == io.EOF:
			return written, io.ErrClosedPipe
		case p.err != nil:
			return written, p.err
		case p.write.passed():
			return written, os.ErrDeadlineExceeded
		case len(p.data) >= pipeBytes:
			p.changed.Wait()
			continue
		}
		n := min(len(b)-written, pipeBytes-len(p.data))
		p.data = append(p.data, b[written:written+n]...)
		written += n
		p.changed.Broadcast()
	}
	return written, nil
}

func (p *pipe) setPartitioned(parted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partitioned = parted
	p.changed.Broadcast()
}

func (p *pipe) setDeadline(d *deadline, t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.stop()
	d.at = t
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		d.timer = time.AfterFunc(wait, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.changed.Broadcast()
		})
	}
	p.changed.Broadcast()
}

// deadline is a read or write deadline, guarded by its pipe's lock.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// Conn is one end of an in-memory connection.
type Conn struct {
	in, out *pipe
	closed  sync.Once
}

// Pipe returns the two ends of a connection.
func Pipe() (client, server *Conn) {
	up, down := newPipe(), newPipe()
	return &Conn{in: down, out: up}, &Conn{in: up, out: down}
}

func (c *Conn) Read(b []byte) (int, error)  { return c.in.Read(b) }
func (c *Conn) Write(b []byte) (int, error) { return c.out.Write(b) }
func (c *Conn) LocalAddr() net.Addr         { return address{} }
func (c *Conn) RemoteAddr() net.Addr        { return address{} }

// Close lets the peer read what has been written, and then EOF.
func (c *Conn) Close() error {
	c.closed.Do(func() {
		c.out.close(io.EOF, false)
		c.in.close(net.ErrClosed, true)
	})
	return nil
}

// Partition keeps data of both directions from its reader, or with false delivers it again. Neither
// end notices.
func (c *Conn) Partition(parted bool) {
	c.in.setPartitioned(parted)
	c.out.setPartitioned(parted)
}

// Reset breaks the connection at once: data in transit is lost, and both ends get an error.
func (c *Conn) Reset() {
	c.out.close(syscall.ECONNRESET, true)
	c.in.close(syscall.ECONNRESET, true)
}

func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.read, t)
	return nil
}

func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.write, t)
	return nil
}

func (c *Conn) SetDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.read, t)
	c.out.setDeadline(&c.out.write, t)
	return nil
}

type address struct{}

func (address) Network() string { return "memory" }
func (address) String() string  { return "memory" }

// Listener is a net.Listener for connections within the process.
type Listener struct {
	accept chan net.Conn
	done   chan struct{}
	once   sync.Once
}

// NewListener returns a listener that Dial reaches.
func NewListener() *Listener {
	return &Listener{accept: make(chan net.Conn), done: make(chan struct{})}
}

// Addr returns an address that only says that the listener is in memory.
func (l *Listener) Addr() net.Addr { return address{} }

// Close refuses connections from now on, and ends Accept. Those that exist go on.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Accept waits for the next connection. After Close it returns net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Refused is the error of a dial to a listener that is closed, or that there is not.
func Refused() error {
	return &net.OpError{Op: "dial", Net: "memory", Addr: address{}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// Dial connects to the listener. Once that is closed, connections are refused.
func (l *Listener) Dial(ctx context.Context) (*Conn, error) {
	client, server := Pipe()
	select {
	case l.accept <- server:
		return client, nil
	case <-l.done:
		return nil, Refused()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
