-- Reliable connections whose headers Wireshark does not read. Filters: irn, xrc.
--
-- IRN (Mittal et al., SIGCOMM 2018): the responder keeps packets out of order, in opcodes 0xc0 to
-- 0xdf of RoCEv2, which are left to manufacturers and Wireshark does not know.
--
-- XRC (InfiniBand specification volume 1, annex A14): extended reliable connections. Wireshark
-- reads the base transport header of opcodes 0xa0 to 0xb7, and nothing after it.
do
    local BTH, ICRC, ROCE_PORT, IRN, XRC = 12, 4, 4791, 0xc0, 0xa0
    local port, payload = Field.new("udp.dstport"), Field.new("udp.payload")

    -- operations returns the names of the operations of reliable connections.
    local function operations()
        return {
            [0x00] = "SEND First", [0x01] = "SEND Middle", [0x02] = "SEND Last", [0x03] = "SEND Last with Immediate",
            [0x04] = "SEND Only", [0x05] = "SEND Only with Immediate",
            [0x06] = "RDMA WRITE First", [0x07] = "RDMA WRITE Middle", [0x08] = "RDMA WRITE Last",
            [0x09] = "RDMA WRITE Last with Immediate", [0x0a] = "RDMA WRITE Only", [0x0b] = "RDMA WRITE Only with Immediate",
            [0x0c] = "RDMA READ Request", [0x0d] = "RDMA READ response First", [0x0e] = "RDMA READ response Middle",
            [0x0f] = "RDMA READ response Last", [0x10] = "RDMA READ response Only", [0x11] = "Acknowledge",
            [0x12] = "ATOMIC Acknowledge", [0x13] = "CmpSwap", [0x14] = "FetchAdd", [0x16] = "SEND Last with Invalidate", [0x17] = "SEND Only with Invalidate",
        }
    end

    -- extensions returns the fields of the headers after the BTH that both have.
    local function extensions(proto)
        return {
            va = ProtoField.uint64(proto .. ".va", "Virtual address", base.HEX),
            rkey = ProtoField.uint32(proto .. ".rkey", "Remote key", base.HEX),
            syndrome = ProtoField.uint8(proto .. ".syndrome", "Syndrome", base.HEX),
            msn = ProtoField.uint24(proto .. ".msn", "Message sequence number", base.DEC),
            swap = ProtoField.uint64(proto .. ".swap", "Swap or add", base.DEC),
            compare = ProtoField.uint64(proto .. ".compare", "Compare", base.DEC),
            original = ProtoField.uint64(proto .. ".original", "Original", base.DEC),
            imm = ProtoField.uint32(proto .. ".imm", "Immediate data", base.HEX),
            invalidate = ProtoField.uint32(proto .. ".invalidate", "Key to invalidate", base.HEX),
            icrc = ProtoField.bytes(proto .. ".icrc", "Invariant CRC"),
        }
    end

    -- read adds a field of n bytes, behind skip others, if it is there.
    local function read(r, name, skip, n)
        if r.b:len() >= r.at + skip + n then
            r.tree:add(r.f[name], r.b(r.at + skip, n))
        end
        r.at = r.at + skip + n
    end

    local acknowledges = { [0x0d] = true, [0x0f] = true, [0x10] = true, [0x11] = true, [0x12] = true, [0x18] = true } -- with an AETH
    local immediate = { [0x03] = true, [0x05] = true, [0x09] = true, [0x0b] = true }

    -- read_extensions reads the headers that both have, in their order. length names the last field
    -- of a RETH, which reth says that the operation has.
    local function read_extensions(r, operation, reth, length)
        if reth then
            read(r, "va", 0, 8)
            read(r, "rkey", 0, 4)
            read(r, length, 0, 4)
        elseif operation == 0x13 or operation == 0x14 then
            read(r, "va", 0, 8)
            read(r, "rkey", 0, 4)
            read(r, "swap", 0, 8)
            read(r, "compare", 0, 8)
        elseif acknowledges[operation] then
            read(r, "syndrome", 0, 1)
            read(r, "msn", 0, 3)
        end
        if operation == 0x12 then
            read(r, "original", 0, 8)
        elseif immediate[operation] then
            read(r, "imm", 0, 4)
        elseif operation == 0x16 or operation == 0x17 then
            read(r, "invalidate", 0, 4)
        end
    end

    -- register makes show read what UDP carries of the packets whose opcode less first has a name.
    local function register(proto, short, f, first, names, show)
        proto.fields = f
        function proto.dissector(_, pinfo, root)
            local to, bytes = port(), payload()
            if to == nil or bytes == nil or to.value ~= ROCE_PORT then
                return
            end
            local b = bytes.range:tvb()
            if b:len() < BTH then
                return
            end
            local operation = b(0, 1):uint() - first
            local name = names[operation]
            if name == nil then
                return
            end
            local r = { b = b, tree = root:add(proto, b()), f = f, at = BTH }
            show(r, operation)
            if b:len() >= r.at + ICRC then
                r.tree:add(f.icrc, b(b:len() - ICRC, ICRC))
            end
            pinfo.cols.protocol = short
            pinfo.cols.info = string.format("%s %s QP=0x%06x PSN=%d", short, name, b(5, 3):uint(), b(9, 3):uint())
        end
        register_postdissector(proto)
    end

    local irn_names = operations()
    irn_names[0x18], irn_names[0x19] = "Negative Acknowledge", "RDMA READ Acknowledge"
    local irn_opcodes = {}
    for operation, name in pairs(irn_names) do
        irn_opcodes[IRN + operation] = "IRN " .. name
    end
    local f = extensions("irn")
    f.opcode = ProtoField.uint8("irn.opcode", "Opcode", base.DEC, irn_opcodes)
    f.ordered = ProtoField.bool("irn.ordered", "To be placed in order")
    f.ack = ProtoField.bool("irn.ackreq", "Acknowledge request")
    f.qp = ProtoField.uint24("irn.destqp", "Destination queue pair", base.HEX)
    f.psn = ProtoField.uint24("irn.psn", "Packet sequence number", base.DEC)
    f.left = ProtoField.uint32("irn.left", "Left of the message (bytes)", base.DEC)
    f.receive = ProtoField.uint24("irn.receive", "Number of the receive request", base.DEC)
    f.packet = ProtoField.uint24("irn.packet", "Packet of the message", base.DEC)
    f.response = ProtoField.uint24("irn.response", "PSN that the response begins with", base.DEC)
    f.kept = ProtoField.uint24("irn.kept", "PSN of the packet that has come", base.DEC)
    register(Proto("irn", "IRN"), "IRN", f, IRN, irn_names, function(r, operation)
        local b, tree = r.b, r.tree
        tree:add(r.f.opcode, b(0, 1))
        tree:add(r.f.ordered, b(1, 1), bit.band(b(1, 1):uint(), 0x40) ~= 0)
        tree:add(r.f.qp, b(5, 3))
        tree:add(r.f.ack, b(8, 1), bit.band(b(8, 1):uint(), 0x80) ~= 0)
        tree:add(r.f.psn, b(9, 3))
        read_extensions(r, operation, operation >= 0x06 and operation <= 0x0c, "left")
        if operation <= 0x05 or operation == 0x16 or operation == 0x17 then
            read(r, "receive", 1, 3)
            read(r, "packet", 1, 3)
        elseif operation == 0x0c or operation == 0x13 or operation == 0x14 then
            read(r, "response", 1, 3)
        elseif operation == 0x18 or operation == 0x19 then
            read(r, "kept", 1, 3)
        end
    end)

    f = extensions("xrc")
    f.srq = ProtoField.uint24("xrc.srq", "Shared receive queue", base.DEC)
    f.length = ProtoField.uint32("xrc.length", "Length of the message (bytes)", base.DEC)
    register(Proto("xrc", "Extended reliable connection (XRC)"), "XRC", f, XRC, operations(), function(r, operation)
        if operation < 0x0d or operation > 0x12 then
            read(r, "srq", 1, 3)
        end
        local reth = operation == 0x06 or operation == 0x0a or operation == 0x0b or operation == 0x0c
        read_extensions(r, operation, reth, "length")
    end)
end
