package http2

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/net/http2"
)

// read takes frame after frame, until the connection ends. An http2.ConnectionError is
// the client's fault and is told to it.
func (c *conn) read() (err error) {
	defer func() {
		if p := recover(); p != nil {
			if c.s.o.Broke != nil {
				c.s.o.Broke(p)
			}
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	c.within(c.s.o.HeadTimeout)
	var preface [len(http2.ClientPreface)]byte
	if _, err := io.ReadFull(c.br, preface[:]); err != nil {
		return err
	}
	if string(preface[:]) != http2.ClientPreface {
		return errors.New("not the preface of HTTP/2")
	}
	for {
		if err := c.next(); err != nil {
			var stream http2.StreamError
			if !errors.As(err, &stream) {
				return err
			}
			if err := c.refuse(stream.StreamID, stream.Code); err != nil {
				return err
			}
		}
	}
}

// next takes one frame.
func (c *conn) next() error {
	if err := c.await(); err != nil {
		return err
	}
	head, err := c.framer.ReadFrameHeader()
	if err != nil {
		return protocolError(err)
	}
	if !c.greeted && head.Type != http2.FrameSettings { // RFC 9113 section 3.4
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	c.greeted = true
	if head.Type == http2.FrameData {
		return c.takeData(head)
	}
	switch {
	case head.Type == http2.FrameHeaders && int(head.Length) < announced(head.Flags):
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	case head.Type == http2.FramePushPromise: // which clients cannot send
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if c.br.Buffered() < int(head.Length) {
		c.within(c.s.o.HeadTimeout)
	}
	frame, err := c.framer.ReadFrameForHeader(head)
	var stream http2.StreamError
	switch {
	case head.Type == http2.FrameHeaders && errors.As(err, &stream): // its fields are lost, and the table with them
		return http2.ConnectionError(stream.Code)
	case err != nil:
		return protocolError(err)
	}
	return c.take(frame)
}

// announced is how much of a head's frame is not its fields, by its flags: of a shorter one
// the framer would say what it says of a connection that has ended (RFC 9113 section 6.2).
func announced(flags http2.Flags) (n int) {
	if flags.Has(http2.FlagHeadersPadded) {
		n++
	}
	if flags.Has(http2.FlagHeadersPriority) {
		n += 5
	}
	return n
}

// await waits for the first byte of a frame, for as long as it takes: what is idle has a
// timer. The rest of the frame's head has the time of a head.
func (c *conn) await() error {
	for c.br.Buffered() == 0 {
		_, err := c.br.Peek(1)
		switch {
		case err == nil:
		case c.armed && errors.Is(err, os.ErrDeadlineExceeded): // of something that is over
			c.armed = false
			c.reads.Forget()
			if err := c.SetReadDeadline(time.Time{}); err != nil {
				return err
			}
		default:
			return err
		}
	}
	if c.br.Buffered() < frameHead {
		c.within(c.s.o.HeadTimeout)
	}
	return nil
}

// within gives what is read next its time.
func (c *conn) within(d time.Duration) {
	c.armed = true
	c.reads.Forget()
	c.reads.Within(d, c.SetReadDeadline)
}

// protocolError is the error of a frame that could not be read: the network's own, or
// what the client did wrong.
func protocolError(err error) error {
	if errors.Is(err, http2.ErrFrameTooLarge) {
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	}
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// take does what a frame asks for that is not one of data.
func (c *conn) take(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.HeadersFrame:
		return c.takeHead(f)
	case *http2.SettingsFrame:
		return c.takeSettings(f)
	case *http2.WindowUpdateFrame:
		return c.takeWindow(f)
	case *http2.PingFrame:
		if f.IsAck() {
			c.hear()
			return c.nothing()
		}
		return c.reply(func() {
			c.out = appendFrameHead(c.out, len(f.Data), http2.FramePing, http2.FlagPingAck, 0)
			c.out = append(c.out, f.Data[:]...)
		})
	case *http2.RSTStreamFrame:
		return c.takeReset(f)
	case *http2.PriorityFrame:
		if f.StreamDep == f.StreamID {
			return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol}
		}
		return c.nothing()
	case *http2.ContinuationFrame: // which cannot be there by itself
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return c.nothing() // GOAWAY too: its sender closes when it has what it wants
}

// nothing counts a frame that says nothing: reading them costs us more than sending them
// costs the client.
func (c *conn) nothing() error {
	if now := time.Now(); now.Sub(c.since) > time.Second {
		c.since, c.said = now, 0
	}
	if c.said++; c.said > idleFrames {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	return nil
}

// stray counts a frame of a stream that is closed, unless something is wrong with it.
func (c *conn) stray(err error) error {
	if err != nil {
		return err
	}
	return c.nothing()
}

// reply appends a frame that answers one of the client's. One that asks and does not read
// would fill our memory.
func (c *conn) reply(write func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	write()
	if len(c.out) > outMost {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	c.later()
	return nil
}

// settingSize is the length of one setting in its frame.
const settingSize = 6

// takeSettings applies what the client says of itself, and says so before anything is
// written that heeds it.
func (c *conn) takeSettings(f *http2.SettingsFrame) error {
	if err := c.nothing(); err != nil || f.IsAck() {
		return err
	}
	if f.NumSettings() > mostSettings {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	var bad error
	full := c.reply(func() {
		if bad = f.ForeachSetting(c.setting); bad == nil {
			c.out = appendFrameHead(c.out, 0, http2.FrameSettings, http2.FlagSettingsAck, 0)
		}
	})
	if bad != nil {
		return bad
	}
	return full
}

// setting applies one of them. The caller holds mu.
func (c *conn) setting(s http2.Setting) error {
	if err := s.Valid(); err != nil {
		return err
	}
	switch s.ID {
	case http2.SettingInitialWindowSize:
		more := int64(s.Val) - c.initial
		if c.initial = int64(s.Val); more == 0 {
			return nil
		}
		for _, st := range c.streams {
			if !st.widen(more) {
				return http2.ConnectionError(http2.ErrCodeFlowControl)
			}
		}
	case http2.SettingHeaderTableSize:
		c.enc.SetMaxDynamicTableSize(s.Val)
	}
	return nil
}

// takeReset ends a stream that the client wants no more.
func (c *conn) takeReset(f *http2.RSTStreamFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	st, err := c.of(f.StreamID)
	if st == nil {
		return c.stray(err)
	}
	st.fail(fmt.Errorf("http2: the client reset the stream (%s)", f.ErrCode))
	c.leave(st)
	c.later() // what nobody has read may be sent again
	return nil
}

// of is the stream with an identifier, nil for one that is closed. Of one that was never
// opened nothing may come. The caller holds mu.
func (c *conn) of(id uint32) (*Stream, error) {
	if id > c.last || id&1 == 0 {
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return c.streams[id], nil
}

// refuse resets a stream for something wrong in it.
func (c *conn) refuse(id uint32, code http2.ErrCode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	st, err := c.of(id)
	if err != nil {
		return err
	}
	if st != nil {
		st.reset(code, fmt.Errorf("%w (%s)", ErrStream, code))
	} else {
		c.sendReset(id, code)
		if err := c.nothing(); err != nil {
			return err
		}
	}
	if len(c.out) > outMost {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	c.later()
	return nil
}
