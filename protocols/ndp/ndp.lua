-- NDP (Handley et al., SIGCOMM 2017) over UDP. Filter: ndp_dc (ndp is a name of Wireshark's own for IPv6).
do
    local ndp = Proto("ndp_dc", "NDP datacenter transport")
    local f = {
        flags = ProtoField.uint8("ndp_dc.flags", "Flags", base.HEX),
        syn = ProtoField.bool("ndp_dc.flags.syn", "SYN", 8, nil, 0x80),
        last = ProtoField.bool("ndp_dc.flags.last", "LAST", 8, nil, 0x40),
        ack = ProtoField.bool("ndp_dc.flags.ack", "ACK", 8, nil, 0x04),
        nack = ProtoField.bool("ndp_dc.flags.nack", "NACK", 8, nil, 0x02),
        pull = ProtoField.bool("ndp_dc.flags.pull", "PULL", 8, nil, 0x01),
        service = ProtoField.uint8("ndp_dc.service", "Service", base.DEC),
        path = ProtoField.uint16("ndp_dc.path", "Path ID", base.DEC),
        connection = ProtoField.uint32("ndp_dc.connection", "Connection", base.DEC),
        seq = ProtoField.uint32("ndp_dc.seq", "Sequence number", base.DEC),
        number = ProtoField.uint32("ndp_dc.pull_number", "Pull number", base.DEC),
    }
    ndp.fields = f
    local LEN, PORT = 16, 54794
    local flags = { { f.syn, 0x80, "SYN" }, { f.last, 0x40, "LAST" }, { f.ack, 0x04, "ACK" }, { f.nack, 0x02, "NACK" }, { f.pull, 0x01, "PULL" } }

    function ndp.dissector(b, pinfo, root)
        if b:len() < LEN then
            return 0
        end
        local tree, names = root:add(ndp, b(0, LEN)), {}
        local value, t = b(0, 1):uint(), tree:add(f.flags, b(0, 1))
        for _, flag in ipairs(flags) do
            t:add(flag[1], b(0, 1))
            if bit.band(value, flag[2]) ~= 0 then
                names[#names + 1] = flag[3]
            end
        end
        tree:add(f.service, b(1, 1))
        tree:add(f.path, b(2, 2))
        tree:add(f.connection, b(4, 4))
        tree:add(f.seq, b(8, 4))
        tree:add(f.number, b(12, 4))
        pinfo.cols.protocol = "NDP"
        pinfo.cols.info = string.format("NDP %s %d, connection %d, pull %d, path %d", #names == 0 and "data" or table.concat(names, "+"),
            b(8, 4):uint(), b(4, 4):uint(), b(12, 4):uint(), b(2, 2):uint())
        if b:len() > LEN then
            Dissector.get("data"):call(b(LEN):tvb(), pinfo, root)
        end
        return b:len()
    end

    DissectorTable.get("udp.port"):add(PORT, ndp)
end
