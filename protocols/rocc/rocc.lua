-- Congestion notification of RoCC (Taheri et al., CoNEXT 2020): ICMP type 253 and ICMPv6
-- type 200, which Wireshark shows as experimental. Filter: rocc.
do
    local rocc = Proto("rocc", "RoCC congestion notification")
    local computed = { [0] = "Fair rate", [1] = "All inputs of the computation", [2] = "Queue and rate, for a registry" }
    local f = {
        code = ProtoField.uint8("rocc.code", "Code", base.DEC, computed),
        rate = ProtoField.double("rocc.rate", "Fair rate (Mb/s)"),
        units = ProtoField.uint32("rocc.rate_units", "Fair rate (delta F)", base.DEC),
        before = ProtoField.double("rocc.rate_before", "Fair rate before the computation (delta F)"),
        delta_f = ProtoField.uint32("rocc.delta_f", "Delta F (kb/s)", base.DEC),
        queue = ProtoField.uint32("rocc.queue", "Number of the queue", base.HEX),
        q_cur = ProtoField.uint32("rocc.q_cur", "Q_cur (delta Q)", base.DEC),
        q_old = ProtoField.uint32("rocc.q_old", "Q_old (delta Q)", base.DEC),
        delta_q = ProtoField.uint32("rocc.delta_q", "Delta Q (bytes)", base.DEC),
        q_ref = ProtoField.uint32("rocc.q_ref", "Q_ref (delta Q)", base.DEC),
        q_mid = ProtoField.uint32("rocc.q_mid", "Q_mid (delta Q)", base.DEC),
        q_max = ProtoField.uint32("rocc.q_max", "Q_max (delta Q)", base.DEC),
        f_min = ProtoField.uint32("rocc.f_min", "F_min (delta F)", base.DEC),
        f_max = ProtoField.uint32("rocc.f_max", "F_max (delta F)", base.DEC),
        alpha = ProtoField.double("rocc.alpha", "Alpha"),
        beta = ProtoField.double("rocc.beta", "Beta"),
        quote = ProtoField.bytes("rocc.quote", "Headers of the flow"),
        src = ProtoField.ipv4("rocc.flow.src", "Source"),
        dst = ProtoField.ipv4("rocc.flow.dst", "Destination"),
        src6 = ProtoField.ipv6("rocc.flow.src6", "Source"),
        dst6 = ProtoField.ipv6("rocc.flow.dst6", "Destination"),
        proto = ProtoField.uint8("rocc.flow.proto", "Protocol", base.DEC),
        srcport = ProtoField.uint16("rocc.flow.srcport", "Source port", base.DEC),
        dstport = ProtoField.uint16("rocc.flow.dstport", "Destination port", base.DEC),
        qp = ProtoField.uint32("rocc.flow.qp", "Destination queue pair", base.HEX),
    }
    rocc.fields = f
    local HEAD, ROCE_PORT, UDP = 16, 4791, 17
    local lengths = { [0] = 0, [1] = 40, [2] = 16 }
    local icmp = { Field.new("icmp"), Field.new("icmpv6") }
    local kinds = { Field.new("icmp.type"), Field.new("icmpv6.type") }
    local types = { 253, 200 }

    -- flow shows the quoted headers, and gives a short text of them.
    local function flow(b, tree)
        local t = tree:add(f.quote, b())
        local version, at = bit.rshift(b(0, 1):uint(), 4), 0
        local proto, from, to
        if version == 4 and b:len() >= 28 then
            at = bit.band(b(0, 1):uint(), 15) * 4
            proto, from, to = b(9, 1), b(12, 4), b(16, 4)
            t:add(f.src, from)
            t:add(f.dst, to)
            from, to = tostring(from:ipv4()), tostring(to:ipv4())
        elseif version == 6 and b:len() >= 48 then
            at = 40
            proto, from, to = b(6, 1), b(8, 16), b(24, 16)
            t:add(f.src6, from)
            t:add(f.dst6, to)
            from, to = tostring(from:ipv6()), tostring(to:ipv6())
        else
            return ""
        end
        t:add(f.proto, proto)
        if at < 20 or b:len() < at + 8 then
            return ""
        end
        t:add(f.srcport, b(at, 2))
        t:add(f.dstport, b(at + 2, 2))
        local text = string.format(", %s:%d > %s:%d", from, b(at, 2):uint(), to, b(at + 2, 2):uint())
        if proto:uint() == UDP and b(at + 2, 2):uint() == ROCE_PORT and b:len() >= at + 20 then
            t:add(f.qp, b(at + 13, 3))
            text = text .. string.format(", queue pair 0x%06x", b(at + 13, 3):uint())
        end
        return text
    end

    local function show(b, pinfo, root)
        local code = b(1, 1):uint()
        if lengths[code] == nil or b:len() < HEAD + lengths[code] then
            return
        end
        local tree = root:add(rocc, b())
        tree:add(f.code, b(1, 1))
        local rate, delta = b(4, 4):uint(), b(8, 4):uint()
        local text
        if code == 0 then
            tree:add(f.units, b(4, 4))
            tree:add(f.rate, b(4, 8), rate * delta / 1000)
            text = string.format("fair rate %.10g Mb/s", rate * delta / 1000)
        else
            tree:add(f.before, b(4, 4), rate / 65536)
            text = string.format("queue %d bytes", b(16, 4):uint() * b(24, 4):uint())
        end
        tree:add(f.delta_f, b(8, 4))
        tree:add(f.queue, b(12, 4))
        if code ~= 0 then
            tree:add(f.q_cur, b(16, 4))
            tree:add(f.q_old, b(20, 4))
            tree:add(f.delta_q, b(24, 4))
        end
        if code == 1 then
            for i, field in ipairs({ f.q_ref, f.q_mid, f.q_max, f.f_min, f.f_max }) do
                tree:add(field, b(24 + 4 * i, 4))
            end
            tree:add(f.alpha, b(48, 4), b(48, 4):uint() / 65536)
            tree:add(f.beta, b(52, 4), b(52, 4):uint() / 65536)
        elseif code == 2 then
            tree:add(f.f_max, b(28, 4))
        end
        local at = HEAD + lengths[code]
        if b:len() > at then
            text = text .. flow(b(at):tvb(), tree)
        end
        pinfo.cols.protocol = "RoCC"
        pinfo.cols.info = "RoCC: " .. text
    end

    function rocc.dissector(_, pinfo, root)
        for i, kind in ipairs(kinds) do
            -- The first of several is the outer one: others stand in quotes.
            local t, layer = kind(), icmp[i]()
            if t ~= nil and layer ~= nil and t.value == types[i] then
                show(layer.range:tvb(), pinfo, root)
            end
        end
    end

    register_postdissector(rocc)
end
