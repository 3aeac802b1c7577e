-- EQDS (Olteanu et al., NSDI 2022) over UDP, and what its tunnels carry. Filter: eqds.
do
    local eqds = Proto("eqds", "Edge-queued datagram service")
    local protocols = { [4] = "IPv4", [41] = "IPv6", [59] = "Nothing", [143] = "Ethernet", [253] = "VXLAN" }
    local f = {
        flags = ProtoField.uint8("eqds.flags", "Flags", base.HEX),
        control = ProtoField.bool("eqds.flags.control", "Control", 8, nil, 0x80),
        syn = ProtoField.bool("eqds.flags.syn", "SYN", 8, nil, 0x40),
        rst = ProtoField.bool("eqds.flags.rst", "RST", 8, nil, 0x20),
        rts = ProtoField.bool("eqds.flags.rts", "RTS", 8, nil, 0x10),
        ack = ProtoField.bool("eqds.flags.ack", "ACK", 8, nil, 0x10),
        nack = ProtoField.bool("eqds.flags.nack", "NACK", 8, nil, 0x08),
        sack = ProtoField.bool("eqds.flags.sack", "SACK", 8, nil, 0x04),
        pull = ProtoField.bool("eqds.flags.pull", "PULL", 8, nil, 0x02),
        next = ProtoField.uint8("eqds.next", "Next protocol", base.DEC, protocols),
        seq = ProtoField.uint16("eqds.seq", "Sequence number", base.DEC),
        epoch = ProtoField.uint8("eqds.epoch", "Epoch", base.DEC),
        target = ProtoField.uint16("eqds.pull_target", "Pull target (MTUs)", base.DEC),
        path = ProtoField.uint8("eqds.path", "Path ID", base.DEC),
        sender = ProtoField.uint8("eqds.sender", "Sender ID", base.DEC),
        number = ProtoField.uint16("eqds.ack_number", "Acknowledgement number", base.DEC),
        pull_number = ProtoField.uint16("eqds.pull_number", "Pull number (MTUs)", base.DEC),
        busy = ProtoField.uint16("eqds.busy_time", "Busy time (us)", base.DEC),
    }
    eqds.fields = f
    local LEN, PORT = 8, 54793
    local VXLAN_PORT = 4789
    local inner = { [4] = Dissector.get("ip"), [41] = Dissector.get("ipv6"), [143] = Dissector.get("eth_withoutfcs"),
        [253] = DissectorTable.get("udp.port"):get_dissector(VXLAN_PORT) }
    -- Of a trimmed packet there may be less inside than a header.
    local least = { [4] = 20, [41] = 40, [143] = 14, [253] = 8 }
    local data_flags = { { f.syn, 0x40, "SYN" }, { f.rst, 0x20, "RST" }, { f.rts, 0x10, "RTS" } }
    local control_flags = { { f.syn, 0x40, "SYN" }, { f.rst, 0x20, "RST" }, { f.ack, 0x10, "ACK" },
        { f.nack, 0x08, "NACK" }, { f.sack, 0x04, "SACK" }, { f.pull, 0x02, "PULL" } }

    -- show_flags shows the flags, and gives the names of those that are set.
    local function show_flags(b, tree, known)
        local t, value, names = tree:add(f.flags, b), b:uint(), {}
        t:add(f.control, b)
        for _, flag in ipairs(known) do
            t:add(flag[1], b)
            if bit.band(value, flag[2]) ~= 0 then
                names[#names + 1] = flag[3]
            end
        end
        return table.concat(names, "+")
    end

    -- show_epoch shows the epoch of a packet with SYN.
    local function show_epoch(b, tree, flags)
        if bit.band(flags, 0x40) ~= 0 then
            tree:add(f.epoch, b, bit.rshift(b:uint(), 10)):set_generated()
        end
    end

    local function control(b, pinfo, tree)
        local flags = show_flags(b(0, 1), tree, control_flags)
        tree:add(f.sender, b(1, 1))
        tree:add(f.number, b(2, 2))
        show_epoch(b(2, 2), tree, b(0, 1):uint())
        tree:add(f.pull_number, b(4, 2))
        tree:add(f.busy, b(6, 2))
        pinfo.cols.protocol = "EQDS"
        pinfo.cols.info = string.format("EQDS %s %d, pull %d, busy %d us, sender %d", flags == "" and "control" or flags, b(2, 2):uint(), b(4, 2):uint(), b(6, 2):uint(), b(1, 1):uint())
    end

    local function data(b, pinfo, tree, root)
        local flags = show_flags(b(0, 1), tree, data_flags)
        tree:add(f.next, b(1, 1))
        tree:add(f.seq, b(2, 2))
        show_epoch(b(2, 2), tree, b(0, 1):uint())
        tree:add(f.target, b(4, 2))
        tree:add(f.path, b(6, 1))
        tree:add(f.sender, b(7, 1))
        local text = string.format("EQDS %s %d, target %d, path %d, sender %d", flags == "" and "data" or flags, b(2, 2):uint(), b(4, 2):uint(), b(6, 1):uint(), b(7, 1):uint())
        local next = b(1, 1):uint()
        if inner[next] == nil or b:len() < LEN + least[next] then
            pinfo.cols.protocol = "EQDS"
            pinfo.cols.info = text
            return
        end
        -- The columns are those of the packet inside, behind what the tunnel says.
        inner[next]:call(b(LEN):tvb(), pinfo, root)
        pinfo.cols.info:prepend("[" .. text .. "] ")
    end

    function eqds.dissector(b, pinfo, root)
        if b:len() < LEN then
            return 0
        end
        local tree = root:add(eqds, b(0, LEN))
        if bit.band(b(0, 1):uint(), 0x80) ~= 0 then
            control(b, pinfo, tree)
            return LEN
        end
        data(b, pinfo, tree, root)
        return b:len()
    end

    DissectorTable.get("udp.port"):add(PORT, eqds)
end

-- Messages of Go programs, which use EQDS itself (the native EQIF). Filter: eqds_native.
do
    local native = Proto("eqds_native", "EQDS native message")
    local f = {
        from = ProtoField.uint16("eqds_native.srcport", "Source port", base.DEC),
        to = ProtoField.uint16("eqds_native.dstport", "Destination port", base.DEC),
        session = ProtoField.uint32("eqds_native.session", "Session", base.DEC),
        number = ProtoField.uint32("eqds_native.number", "Message", base.DEC),
        total = ProtoField.uint32("eqds_native.length", "Length of the message", base.DEC),
        offset = ProtoField.uint32("eqds_native.offset", "Offset", base.DEC),
        data = ProtoField.bytes("eqds_native.data", "Data"),
    }
    native.fields = f
    local LEN, PORT = 20, 54795

    function native.dissector(b, pinfo, root)
        if b:len() < LEN then
            return 0
        end
        local tree = root:add(native, b())
        tree:add(f.from, b(0, 2))
        tree:add(f.to, b(2, 2))
        tree:add(f.session, b(4, 4))
        tree:add(f.number, b(8, 4))
        tree:add(f.total, b(12, 4))
        tree:add(f.offset, b(16, 4))
        if b:len() > LEN then
            tree:add(f.data, b(LEN))
        end
        pinfo.cols.protocol = "EQDS"
        pinfo.cols.info = string.format("%d > %d message %d, %d bytes from %d of %d", b(0, 2):uint(), b(2, 2):uint(), b(8, 4):uint(), b:len() - LEN, b(16, 4):uint(), b(12, 4):uint())
        return b:len()
    end

    DissectorTable.get("udp.port"):add(PORT, native)
end
