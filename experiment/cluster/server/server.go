// Package server runs a NATS server with JetStream inside this process, for users without
// one. It is separate from experiment/cluster so that only programs that serve import the server.
package server

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"
)

// Options configure a server.
type Options struct {
	// Dir is where JetStream keeps jobs and results. It is created if it does not exist. A
	// server that is restarted on it continues where it stopped.
	Dir string
	// Address is HOST:PORT; port 0 picks a free one. A host that other machines can reach
	// needs a password, a token or client certificates.
	Address string

	User, Password string
	Token          string

	Cert, Key string // PEM files: the server uses TLS
	ClientCA  string // PEM file: clients need certificates signed by it; needs Cert

	// MaxStore is how many bytes JetStream may store; 0 means three quarters of the free
	// space in Dir.
	MaxStore int64
	// Log, if not nil, receives the server's warnings and errors. It may be called from
	// several goroutines.
	Log func(string)
}

// Fixed limits of all servers.
const (
	// maxPayload is the default of NATS. experiment/cluster sends at most 256 KiB and a header;
	// other programs may rely on the default.
	maxPayload = 1 << 20
	// maxMemory is for streams in memory; experiment/cluster has none.
	maxMemory = 16 << 20
	// syncInterval is how often files are synced. Work that a server loses from this period
	// in a power failure is run again; a server that is killed loses nothing.
	syncInterval = 10 * time.Second
	// startTime is how long a server may take to read its files before it is ready.
	startTime = 5 * time.Minute
)

// ErrUnprotected is wrapped by the error of a server that others could reach without credentials.
var ErrUnprotected = errors.New("anyone who can reach it could run jobs on the workers")

// Server is a NATS server in this process.
type Server struct {
	server  *natsserver.Server
	options Options
	lock    *os.File
	failed  chan error
}

// Failed returns a channel with the error of a server that can no longer store jobs and results,
// such as that of a full disk.
func (s *Server) Failed() <-chan error { return s.failed }

// Serve starts a server. It refuses to listen on addresses other than loopback if anyone
// who reaches it could use it.
func Serve(o Options) (*Server, error) {
	options, err := o.natsOptions()
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{options: o, lock: lock, failed: make(chan error, 1)}
	if s.server, err = natsserver.NewServer(options); err != nil {
		lock.Close()
		return nil, fmt.Errorf("NATS server: %w", err)
	}
	log := &logger{report: o.Log, failed: s.failed}
	s.server.SetLogger(log, false, false)
	s.server.Start()
	for began := time.Now(); !s.server.ReadyForConnections(100 * time.Millisecond); {
		if reason := log.fatalReason(); reason != "" || time.Since(began) > startTime {
			s.Close()
			return nil, fmt.Errorf("NATS server on %s in %s did not start: %s", o.Address, o.Dir, cmp.Or(reason, "it is still reading its files"))
		}
	}
	return s, nil
}

// natsOptions converts the options to those of the NATS server.
func (o Options) natsOptions() (*natsserver.Options, error) {
	host, portText, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, fmt.Errorf("address %q: want HOST:PORT, such as 127.0.0.1:4222: %w", o.Address, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("address %q: %q is not a port", o.Address, portText)
	}
	if (o.Cert == "") != (o.Key == "") {
		return nil, errors.New("the server's certificate and its key go together: give both or none")
	}
	if o.ClientCA != "" && o.Cert == "" {
		return nil, errors.New("clients can only be asked for certificates over TLS: give the server's certificate and key, too")
	}
	if (o.User == "") != (o.Password == "") {
		return nil, errors.New("user and password go together: give both or none")
	}
	if o.User != "" && o.Token != "" {
		return nil, errors.New("give either user and password or a token, not both")
	}
	local, err := isLoopback(host)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", o.Address, err)
	}
	if !local && o.User == "" && o.Token == "" && o.ClientCA == "" {
		return nil, fmt.Errorf("address %s: %w: give user and password, a token, or an authority for clients' certificates (and a certificate and key of the server, so that passwords are not sent in the clear), or listen on 127.0.0.1", o.Address, ErrUnprotected)
	}
	options := &natsserver.Options{
		ServerName:         "weft",
		Host:               host,
		Port:               int(port),
		Username:           o.User,
		Password:           o.Password,
		Authorization:      o.Token,
		JetStream:          true,
		StoreDir:           o.Dir,
		JetStreamMaxMemory: maxMemory,
		JetStreamMaxStore:  o.MaxStore, // 0: the server defaults to three quarters
		MaxPayload:         maxPayload,
		SyncInterval:       syncInterval,
		NoSigs:             true, // signals belong to the program
	}
	if port == 0 {
		options.Port = natsserver.RANDOM_PORT
	}
	if options.Host == "" {
		options.Host = "0.0.0.0"
	}
	if o.Cert != "" {
		if options.TLSConfig, err = o.tlsConfig(); err != nil {
			return nil, err
		}
		options.TLS, options.TLSVerify, options.TLSTimeout = true, o.ClientCA != "", 10
	}
	return options, nil
}

func (o Options) tlsConfig() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, fmt.Errorf("the server's certificate: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if o.ClientCA != "" {
		pem, err := os.ReadFile(o.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("the authority for clients' certificates: %w", err)
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the authority for clients' certificates: %s has no PEM certificate", o.ClientCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// isLoopback reports whether all addresses of a host are loopback addresses.
func isLoopback(host string) (bool, error) {
	if host == "" {
		return false, nil
	}
	addresses, err := net.LookupIP(host)
	if err != nil {
		return false, err
	}
	for _, a := range addresses {
		if !a.IsLoopback() {
			return false, nil
		}
	}
	return true, nil
}

// lockDir creates a server's directory and makes sure that only one server uses it.
func lockDir(dir string) (*os.File, error) {
	if dir == "" {
		return nil, errors.New("a NATS server needs a directory for jobs and results")
	}
	// Only the directory itself is private: what it is in may be that of the results.
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: another server uses this directory: stop it, or give another directory", dir)
		}
		return nil, fmt.Errorf("%s: cannot lock: %w", lock.Name(), err)
	}
	return lock, nil
}

// URLs returns the URLs at which workers and coordinators reach the server, without
// passwords: one for each address of the machine if it listens on all of them, loopback only if the
// machine has no other.
func (s *Server) URLs() []string {
	scheme := "nats"
	if s.options.Cert != "" {
		scheme = "tls"
	}
	at := s.server.Addr().(*net.TCPAddr)
	hosts := []string{at.IP.String()}
	if name, _, err := net.SplitHostPort(s.options.Address); err == nil && name != "" && net.ParseIP(name) == nil {
		hosts = []string{name} // certificates may contain only names
	} else if at.IP.IsUnspecified() {
		hosts = nil
		addresses, _ := net.InterfaceAddrs()
		for _, a := range addresses {
			if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
				hosts = append(hosts, ip.IP.String())
			}
		}
		if hosts == nil {
			hosts = []string{"127.0.0.1"}
		}
	}
	var all []string
	for _, host := range hosts {
		u := url.URL{Scheme: scheme, Host: net.JoinHostPort(host, strconv.Itoa(at.Port))}
		all = append(all, u.String())
	}
	return all
}

// Close shuts the server down. Stored data remains.
func (s *Server) Close() {
	s.server.Shutdown()
	s.server.WaitForShutdown()
	s.lock.Close()
}

// logger forwards the server's warnings.
type logger struct {
	report func(string)
	failed chan<- error // with room for the first error that files cannot be written

	mu     sync.Mutex
	reason string // why the server cannot continue
}

// fatalReason returns why the server cannot continue, or "" if it can.
func (l *logger) fatalReason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

func (l *logger) logLine(level, format string, args []any) {
	if l.report != nil {
		l.report("NATS server: " + level + ": " + fmt.Sprintf(format, args...))
	}
}

func (l *logger) Noticef(string, ...any)           {}
func (l *logger) Debugf(string, ...any)            {}
func (l *logger) Tracef(string, ...any)            {}
func (l *logger) Warnf(format string, args ...any) { l.logLine("warning", format, args) }
func (l *logger) Errorf(format string, args ...any) {
	l.logLine("error", format, args)
	for _, a := range args {
		err, ok := a.(error)
		if !ok || !slices.ContainsFunc([]error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO}, func(e error) bool { return errors.Is(err, e) }) {
			continue
		}
		select {
		case l.failed <- fmt.Errorf("the NATS server cannot store jobs and results: %w", err):
		default: // not the first
		}
	}
}

// Fatalf must not exit the program, although the server assumes that it does.
func (l *logger) Fatalf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reason = fmt.Sprintf(format, args...)
}
